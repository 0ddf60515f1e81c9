function lib = lsl_loadlib()
lib = [];
end
