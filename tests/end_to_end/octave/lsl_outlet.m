function outlet = lsl_outlet(info)
handle = lsl_call('outlet', info.name, info.type, info.source_id);
outlet = struct('push_sample', @(texts) lsl_call('push', handle, texts{1}));
end
