function client(contest, team, token_file, lsl_session)
% A decoder in MATLAB, written from docs/protocol.md, for open contests (results = "signed").
%
%     client('default', 'alpha', 'alpha.token')
%
% Needs liblsl-Matlab on the path (lsl_loadlib, lsl_resolve_bypred, lsl_outlet, lsl_inlet), and MATLAB
% R2019a or later with Java (java.security), or GNU Octave 7 or later. It takes part in lockstep and in real
% time, and does what scripts/clients/client.c does: the lead of C4, C3 and Cz whose rhythm fell most is
% reported, 2, 3 and 4 s after each trigger 200 of track mi. For an algorithm of your own change
% start_subject and decode_packet. The tests run it with Octave, and a few functions in place of
% liblsl-Matlab; nobody has run it with MATLAB yet.

if nargin < 4, lsl_session = 'default'; end
config = [tempname '.cfg'];
file = fopen(config, 'w');
fprintf(file, '[ports]\nPortRange = 512\nIPv6 = disable\n');
fprintf(file, '[multicast]\nResolveScope = machine\nAddressesOverride = {127.0.0.1}\n');
fprintf(file, '[lab]\nKnownPeers = {127.0.0.1}\nSessionID = %s\n', lsl_session);
fclose(file);
setenv('LSLAPICFG', config);  % read once, when liblsl is loaded

lib = lsl_loadlib();
digits = strtrim(fileread(token_file));
if numel(digits) ~= 64, error('%s: a token is 64 hexadecimal digits', token_file); end
me = struct('contest', contest, 'team', team, 'run', '', 'lib', lib);
me.token = uint8(hex2dec(reshape(digits, 2, [])'))';
info = lsl_streaminfo(lib, [contest '-' team '-results'], 'BCI-Results', 1, 0, 'cf_string', ...
    ['bci/' contest '/results/' team]);
me.outlet = lsl_outlet(info);

% --- join ---
control = open_inlet(lib, ['bci/' contest '/control/'], 60);
offer = ask(me, control, 'hello', struct(), {'offer'});
if ~strcmp(offer.track, 'mi'), error('the replay plays %s, not mi', offer.track); end
if ~strcmp(offer.results, 'signed'), error('the results of this contest are sealed'); end
me.run = offer.run;
% An empty containers.Map is the object {}; an empty struct array would be [].
joining = struct('nonce', sprintf('%x', round(now * 1e9)), 'channels', containers.Map());
answer = ask(me, control, 'join', joining, {'welcome', 'refused'});
if strcmp(answer.kind, 'refused'), error('refused: %s', answer.reason); end
if ~strcmp(answer.proof, hmac(me.token, ['welcome ' me.run ' ' team]))
    error('this replay has not our token: it is not the organiser''s');
end
signal = open_inlet(lib, answer.signal, 60);
while isempty(signal.pull_sample(0.25))  % until a sample arrives: from then on none is lost
    send(me, 'join', joining);
end

% --- packets ---
lockstep = strcmp(offer.pace, 'lockstep');
state = struct();
started = false;
heard = tic;
finished = false;
while ~finished
    [message, stamp] = next_message(control, 0.25);
    if isempty(message)
        if toc(heard) > 30, error('the replay is gone'); end
        if ~started, send(me, 'ready', struct()); end
        continue
    end
    heard = tic;
    if ~for_us(me, message), continue, end
    switch message.kind
        case 'session'
            state = start_subject(message);
            if lockstep && ~started, send(me, 'next', struct('packet', 0)); end
            started = true;
        case 'stopped'
            error('the replay stopped: %s', message.reason);
        case 'packet'
            samples = read_samples(signal, message.n, stamp, state.rate);
            if isfield(message, 'digest') && ~strcmp(message.digest, digest_of(samples))
                error('the samples of a packet are not those that the replay sent');
            end
            [state, results] = decode_packet(state, samples);
            for result = results, send(me, 'report', struct('result', result)); end
            finished = message.finish;
            if lockstep && ~finished, send(me, 'next', struct('packet', message.i + 1)); end
    end
end
send(me, 'done', struct('reason', 'finished', 'detail', ''));

% --- stay until the judge has the run in its log ---
judge = open_inlet(lib, ['bci/' contest '/judge/'], 5);
waited = tic;
while toc(waited) < 30
    message = next_message(judge, 0.5);
    if ~isempty(message) && strcmp(message.kind, 'closed') && for_us(me, message), return, end
end
error('the judge did not confirm the run');
end


% --- messages ---------------------------------------------------------------------------------

function send(me, kind, fields)
% One JSON object, a blank, and its HMAC-SHA256. seq only grows, also over a restart.
persistent seq
if isempty(seq), seq = round(unix_time() * 1e6); end
seq = seq + 1;
head = struct('kind', kind, 'contest', me.contest, 'run', me.run, 'team', me.team);
text = [jsonencode(head), jsonencode(fields)];
text = strrep(text, '}{', sprintf(',"seq":%d,', seq));
text = strrep(text, ',}', '}');
me.outlet.push_sample({[text ' ' hmac(me.token, text)]});
end

function message = ask(me, inlet, kind, fields, answers)
% Send a message every quarter of a second, until one of these kinds arrives.
begun = tic;
while toc(begun) < 60
    send(me, kind, fields);
    again = tic;
    while toc(again) < 0.25
        message = next_message(inlet, 0.25);
        if ~isempty(message) && any(strcmp(message.kind, answers)) && for_us(me, message), return, end
    end
end
error('no %s arrived within 60 s', strjoin(answers, ' or '));
end

function yes = for_us(me, message)
yes = ~isfield(message, 'team') || strcmp(message.team, me.team);
if ~isempty(me.run), yes = yes && isfield(message, 'run') && strcmp(message.run, me.run); end
end

function [message, stamp] = next_message(inlet, timeout_s)
% The next message, [] where none arrives. Behind a judge's object stand a blank and a HMAC.
[texts, stamp] = inlet.pull_sample(timeout_s);
message = [];
if ~isempty(texts)
    text = texts{1};
    message = jsondecode(text(1:find(text == '}', 1, 'last')));
end
end

function inlet = open_inlet(lib, source_id, timeout_s)
found = lsl_resolve_bypred(lib, ['starts-with(source_id,''' source_id ''')'], 1, timeout_s);
if isempty(found), error('no stream %s* within %g s', source_id, timeout_s); end
inlet = lsl_inlet(found{1});
inlet.open_stream(timeout_s);
end

function text = hmac(key, message)
% HMAC-SHA256 (RFC 2104) of a text under a key of 32 bytes, in hexadecimal.
key(64) = 0;
inner = sha256([bitxor(key, uint8(54)), unicode2native(message, 'UTF-8')]);
text = hexadecimal(sha256([bitxor(key, uint8(92)), inner]));
end

function text = digest_of(samples)
% The first 32 hexadecimal digits of the SHA-256 of the samples: little-endian float32, row by row.
bytes = sha256(typecast(single(reshape(samples', 1, [])), 'uint8'));
text = hexadecimal(bytes(1:16));
end

function text = hexadecimal(bytes)
text = sprintf('%02x', bytes);
end

function digest = sha256(bytes)
% The 32 bytes of the SHA-256 of a row of bytes.
if in_octave()
    digest = uint8(hex2dec(reshape(hash('sha256', char(bytes)), 2, [])'))';
else
    algorithm = java.security.MessageDigest.getInstance('SHA-256');
    digest = typecast(reshape(algorithm.digest(typecast(bytes, 'int8')), 1, []), 'uint8');
end
end

function seconds = unix_time()
if in_octave()
    seconds = time();
else
    seconds = posixtime(datetime('now', 'TimeZone', 'UTC'));
end
end

function yes = in_octave()
yes = exist('OCTAVE_VERSION', 'builtin') > 0;
end

function samples = read_samples(inlet, n, stamp, rate)
% The n samples (rows) whose last one has the note's stamp; older ones are probes.
samples = [];
while true
    [row, at] = inlet.pull_sample(30);
    if isempty(row), error('the samples of a packet did not arrive within 30 s'); end
    samples = [samples(max(1, end - n + 2):end, :); row];
    if at > stamp - 0.1 / rate, return, end
end
end


% --- the algorithm: put your own here ---------------------------------------------------------

function state = start_subject(session)
% Results 1 (left hand), 2 (right hand), 3 (feet), and the lead of each.
wanted = {'C4', 'C3', 'Cz'};
[known, state.place] = ismember(wanted, session.leads);
if ~all(known), error('the signal has no lead %s', wanted{find(~known, 1)}); end
state.rate = session.rate;
state.since = -1;                  % samples after the trigger's packet; -1: no trial
[state.in, state.out] = deal(zeros(2, 3));   % the last two values before and behind the filter
[state.rest, state.before, state.during] = deal(zeros(1, 3));
end

function [state, results] = decode_packet(state, samples)
% One packet: rows of samples, leads in microvolts, TRIGGER last.
n = size(samples, 1);
first = 2 * 0.97 * cos(2 * pi * 11 / state.rate);
if any(samples(:, end) == 200)
    state.since = 0;
    state.before = state.rest;
    state.during = zeros(1, 3);
elseif state.since >= 0
    state.since = state.since + n;
end
for i = 1:n
    x = samples(i, state.place) - mean(samples(i, 1:end - 1));
    y = x - state.in(2, :) + first * state.out(1, :) - 0.97 ^ 2 * state.out(2, :);
    state.in = [x; state.in(1, :)];
    state.out = [y; state.out(1, :)];
    state.rest = state.rest + (y .^ 2 - state.rest) / (4 * state.rate);
    if state.since > 0, state.during = state.during + y .^ 2; end
end
left = (2:4) * state.rate - state.since;   % a report each, one packet before its limit
results = [];
if state.since > 0 && any(left >= n & left < 2 * n)
    [~, results] = min(state.during ./ state.before);
end
end
