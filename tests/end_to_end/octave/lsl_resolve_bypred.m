function found = lsl_resolve_bypred(lib, predicate, least, timeout_s)
assert(least == 1);
found = lsl_call('resolve', predicate, timeout_s);
end
