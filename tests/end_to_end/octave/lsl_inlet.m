function inlet = lsl_inlet(info)
[handle, channels, is_text] = lsl_call('inlet', info);
inlet.open_stream = @(timeout_s) lsl_call('open', handle, timeout_s);
inlet.pull_sample = @(timeout_s) lsl_call('pull', handle, channels, is_text, timeout_s);
end
