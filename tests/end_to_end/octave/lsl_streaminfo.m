function info = lsl_streaminfo(lib, name, type, channels, rate, format, source_id)
assert(channels == 1 && rate == 0 && strcmp(format, 'cf_string'));
info = struct('name', name, 'type', type, 'source_id', source_id);
end
