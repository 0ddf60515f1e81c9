/* A motor imagery decoder in C, written from docs/protocol.md: one file, liblsl, and the C library.
 *
 *     cc -O2 -o client scripts/clients/client.c -L FOLDER -llsl -lm -Wl,-rpath,FOLDER
 *     ./client CONTEST TEAM TOKEN_FILE [LSL_SESSION]
 *
 * FOLDER holds liblsl.so; pylsl's wheel ships one: python -c "import pylsl.lib as l; print(l.__path__[0])"
 * It takes part in open contests (`results = "signed"`) of track mi, in lockstep and in real time. Of the leads C4,
 * C3 and Cz, whose rhythm at 11 Hz is weaker during imagery of the left hand, the right hand and the feet, it
 * reports the one that fell most. For an algorithm of your own change start_subject() and decode_packet().
 *
 * Exit code 0: the run is over and the judge has it in its log; 1: it could not take part, with the reason.
 */

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- the functions of liblsl that are used (lsl_c.h) ---------------------------------------- */

typedef struct lsl_streaminfo_struct_ *lsl_streaminfo;
typedef struct lsl_inlet_struct_ *lsl_inlet;
typedef struct lsl_outlet_struct_ *lsl_outlet;
enum { FORMAT_STRING = 3 };

void lsl_set_config_content(const char *content);
double lsl_local_clock(void);
lsl_streaminfo lsl_create_streaminfo(const char *name, const char *type, int32_t channels, double rate,
                                     int format, const char *source_id);
int32_t lsl_get_channel_count(lsl_streaminfo info);
const char *lsl_get_uid(lsl_streaminfo info);
lsl_outlet lsl_create_outlet(lsl_streaminfo info, int32_t chunk, int32_t max_buffered);
lsl_streaminfo lsl_get_info(lsl_outlet outlet);
int32_t lsl_push_sample_str(lsl_outlet outlet, const char **texts);
int32_t lsl_resolve_bypred(lsl_streaminfo *found, uint32_t most, const char *predicate, int32_t least,
                           double timeout_s);
lsl_inlet lsl_create_inlet(lsl_streaminfo info, int32_t max_buffered, int32_t max_chunk, int32_t recover);
void lsl_open_stream(lsl_inlet inlet, double timeout_s, int32_t *error);
double lsl_pull_sample_str(lsl_inlet inlet, char **texts, int32_t count, double timeout_s, int32_t *error);
double lsl_pull_sample_f(lsl_inlet inlet, float *values, int32_t count, double timeout_s, int32_t *error);
void lsl_destroy_string(char *text);
void lsl_destroy_streaminfo(lsl_streaminfo info);
void lsl_destroy_inlet(lsl_inlet inlet);
void lsl_destroy_outlet(lsl_outlet outlet);

/* --- limits --------------------------------------------------------------------------------- */

enum {
    MOST_SAMPLES = 4096,  /* of one packet */
    MOST_CHANNELS = 1024, /* of the signal, with TRIGGER */
    MOST_TEXT = 1 << 16,  /* bytes of a message that is sent */
    MOST_FIELD = 1 << 14  /* bytes of one field that is read */
};
static const double AGAIN_S = 0.25; /* how long to wait for an answer before a message is sent again */
static const double GONE_S = 30.0;  /* a replay that is silent for so long is gone */
static const double FIND_S = 60.0;

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("client: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

/* --- SHA-256 and HMAC-SHA256 (FIPS 180-4, RFC 2104) ------------------------------------------ */

typedef struct {
    uint32_t state[8];
    uint8_t block[64];
    uint64_t length; /* bytes so far */
} sha256;

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t x, int by) { return (x >> by) | (x << (32 - by)); }

static void sha256_block(sha256 *hash) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)hash->block[4 * i] << 24 | (uint32_t)hash->block[4 * i + 1] << 16 |
               (uint32_t)hash->block[4 * i + 2] << 8 | hash->block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + w[i - 7] +
               (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    memcpy(s, hash->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t sum1 = rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25);
        uint32_t one = s[7] + sum1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + ROUND[i] + w[i];
        uint32_t sum0 = rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22);
        uint32_t two = sum0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) hash->state[i] += s[i];
}

static void sha256_begin(sha256 *hash) {
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, first, sizeof first);
    hash->length = 0;
}

static void sha256_add(sha256 *hash, const void *data, size_t count) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < count; i++) {
        hash->block[hash->length++ % 64] = bytes[i];
        if (hash->length % 64 == 0) sha256_block(hash);
    }
}

static void sha256_end(sha256 *hash, uint8_t digest[32]) {
    uint64_t bits = hash->length * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(hash, "\x80", 1);
    while (hash->length % 64 != 56) sha256_add(hash, "", 1);
    sha256_add(hash, length, 8);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

static void hexadecimal(const uint8_t *bytes, int count, char *text) {
    for (int i = 0; i < count; i++) sprintf(text + 2 * i, "%02x", bytes[i]);
}

/* The HMAC-SHA256 of a text under a key of 32 bytes, in hexadecimal (65 bytes). */
static void hmac(const uint8_t key[32], const char *text, char out[65]) {
    sha256 hash;
    uint8_t pad[64], digest[32];
    for (int pass = 0; pass < 2; pass++) {
        memset(pad, pass ? 0x5c : 0x36, sizeof pad);
        for (int i = 0; i < 32; i++) pad[i] ^= key[i];
        sha256_begin(&hash);
        sha256_add(&hash, pad, sizeof pad);
        if (pass) sha256_add(&hash, digest, sizeof digest);
        else sha256_add(&hash, text, strlen(text));
        sha256_end(&hash, digest);
    }
    hexadecimal(digest, 32, out);
}

/* --- JSON: the fields of one object ---------------------------------------------------------- */

/* Behind the value that begins at `at`: a string, a nested value or a plain word. */
static const char *behind(const char *at) {
    int depth = 0;
    do {
        if (*at == '"') {
            for (at++; *at && *at != '"'; at++)
                if (*at == '\\' && at[1]) at++;
            if (*at) at++;
        } else if (*at == '{' || *at == '[') {
            depth++, at++;
        } else if (*at == '}' || *at == ']') {
            depth--, at++;
        } else if (depth == 0) {
            while (*at && !strchr(",]} \t\n", *at)) at++;
        } else if (*at) {
            at++;
        }
    } while (*at && depth > 0);
    return at;
}

static const char *skip(const char *at, const char *what) { return at + strspn(at, what); }

/* Copy the value of a field of the object; strings without their quotes. Returns 0 where it is absent. */
static int field(const char *object, const char *name, char *value, size_t most) {
    const char *at = skip(object, " \t\n{");
    while (*at == '"') {
        const char *key = at + 1, *end = behind(at);
        size_t length = (size_t)(end - key) - 1;
        at = skip(end, " \t\n:");
        const char *stop = behind(at);
        if (length == strlen(name) && strncmp(key, name, length) == 0) {
            int quoted = *at == '"';
            size_t size = (size_t)(stop - at) - (quoted ? 2 : 0);
            if (size >= most) fail("the field %s of a message is too long: %zu bytes", name, size);
            memcpy(value, at + quoted, size);
            value[size] = 0;
            return 1;
        }
        at = skip(stop, " \t\n,");
    }
    return 0;
}

static int is(const char *object, const char *name, const char *wanted) {
    char value[MOST_FIELD];
    return field(object, name, value, sizeof value) && strcmp(value, wanted) == 0;
}

/* --- one team -------------------------------------------------------------------------------- */

static const char *contest, *team;
static uint8_t token[32];
static char run[256] = "";
static long long sequence;
static lsl_outlet results;
static char uid[80]; /* of that stream */
static lsl_inlet control, signal_inlet;
static char text[1 << 20]; /* the last message of the replay: a message has at most 1 MiB */
static double stamp;

static void read_token(const char *path) {
    char line[80] = "";
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) fail("%s: the token file can't be read", path);
    fclose(file);
    for (int i = 0; i < 32; i++) {
        unsigned byte;
        if (!isxdigit((unsigned char)line[2 * i]) || sscanf(line + 2 * i, "%2x", &byte) != 1)
            fail("%s: a token is 64 hexadecimal digits", path);
        token[i] = (uint8_t)byte;
    }
}

/* Send a message with further fields, such as `,"packet":3`. */
static void send_message(const char *kind, const char *format, ...) {
    static char message[MOST_TEXT + 80];
    char fields[MOST_TEXT / 2], signature[65];
    va_list values;
    va_start(values, format);
    int fits = vsnprintf(fields, sizeof fields, format, values) < (int)sizeof fields;
    va_end(values);
    int length = snprintf(message, MOST_TEXT,
                          "{\"kind\":\"%s\",\"contest\":\"%s\",\"run\":\"%s\",\"team\":\"%s\",\"stream\":\"%s\","
                          "\"seq\":%lld%s}",
                          kind, contest, run, team, uid, ++sequence, fields);
    if (!fits || length >= MOST_TEXT) fail("the message %s is too long", kind);
    hmac(token, message, signature);
    sprintf(message + length, " %s", signature);
    const char *sample[1] = {message};
    lsl_push_sample_str(results, sample);
}

static int channels; /* of the stream that was opened last, which is the signal in the end */

static lsl_inlet open_inlet(const char *source_id, double timeout_s) {
    char predicate[700];
    lsl_streaminfo found[1];
    int32_t error = 0;
    snprintf(predicate, sizeof predicate, "starts-with(source_id,'%s')", source_id);
    if (lsl_resolve_bypred(found, 1, predicate, 1, timeout_s) < 1) return NULL;
    lsl_inlet inlet = lsl_create_inlet(found[0], 360, 0, 1);
    lsl_open_stream(inlet, timeout_s, &error);
    if (error) fail("the stream %s can't be opened: error %d", source_id, error);
    channels = lsl_get_channel_count(found[0]);
    lsl_destroy_streaminfo(found[0]);
    return inlet;
}

/* Take the next text of a stream into `text`; returns 0 where none arrives in time. */
static int next_text(lsl_inlet inlet, double timeout_s) {
    char *sample[1] = {NULL};
    int32_t error = 0;
    double at = lsl_pull_sample_str(inlet, sample, 1, timeout_s, &error);
    if (error) fail("a stream was lost: error %d", error);
    if (at == 0.0) return 0;
    if (!sample[0] || strlen(sample[0]) >= sizeof text) fail("a message is longer than 1 MiB");
    strcpy(text, sample[0]);
    lsl_destroy_string(sample[0]);
    stamp = at;
    return 1;
}

/* Whether `text` is of this kind, of this run (once it is known), and for this team or for all. */
static int is_for_us(const char *kind) {
    char whom[256];
    int others = field(text, "team", whom, sizeof whom) && strcmp(whom, team) != 0;
    return is(text, "kind", kind) && !others && (!*run || is(text, "run", run));
}

/* Send a message every quarter of a second, until one of two kinds arrives. */
static void ask(const char *kind, const char *fields, const char *answer, const char *other) {
    for (double end = lsl_local_clock() + FIND_S; lsl_local_clock() < end;) {
        send_message(kind, "%s", fields);
        for (double again = lsl_local_clock() + AGAIN_S; lsl_local_clock() < again;)
            if (next_text(control, AGAIN_S) && (is_for_us(answer) || is_for_us(other))) return;
    }
    fail("no %s arrived within %g s", answer, FIND_S);
}

/* Join the run of the replay's offer; returns whether it is in lockstep. */
static int join(void) {
    char pace[64] = "", value[MOST_FIELD], proof[65], fields[80], sentence[600], source[600];
    snprintf(source, sizeof source, "bci/%s/control/", contest);
    control = open_inlet(source, FIND_S);
    if (!control) fail("no stream %s* within %g s: is the replay started?", source, FIND_S);
    ask("hello", "", "offer", "offer");
    if (!is(text, "track", "mi")) fail("the replay does not play track mi");
    if (!is(text, "results", "signed")) fail("the contest's results are sealed; this client signs only");
    field(text, "run", run, sizeof run);
    field(text, "pace", pace, sizeof pace);
    snprintf(fields, sizeof fields, ",\"nonce\":\"%llx\",\"channels\":{}", (unsigned long long)time(NULL));
    ask("join", fields, "welcome", "refused");
    if (is(text, "kind", "refused")) {
        field(text, "reason", value, sizeof value);
        fail("refused: %s", value);
    }
    snprintf(sentence, sizeof sentence, "welcome %s %s", run, team);
    hmac(token, sentence, proof);
    if (!is(text, "proof", proof)) fail("this replay has not our token: it is not the organiser's");
    field(text, "signal", source, sizeof source);
    signal_inlet = open_inlet(source, FIND_S);
    if (!signal_inlet) fail("no stream %s within %g s", source, FIND_S);
    if (channels < 2 || channels > MOST_CHANNELS) fail("a signal of %d channels", channels);
    float probe[MOST_CHANNELS];
    int32_t error = 0;
    while (lsl_pull_sample_f(signal_inlet, probe, channels, AGAIN_S, &error) == 0.0 && !error)
        send_message("join", "%s", fields); /* until a sample arrives: from then on none is lost */
    if (error) fail("the signal was lost: error %d", error);
    return strcmp(pace, "lockstep") == 0;
}

/* --- packets --------------------------------------------------------------------------------- */

static double rate;
static float samples[MOST_SAMPLES][MOST_CHANNELS];

/* Read the n samples whose last one has the note's stamp; the probes are older and are passed over. */
static void read_samples(int n) {
    int32_t error = 0;
    for (int count = 0;; count++) {
        if (count >= n) memmove(samples[0], samples[1], (size_t)(n - 1) * sizeof samples[0]);
        float *row = samples[count < n ? count : n - 1];
        double at = lsl_pull_sample_f(signal_inlet, row, channels, GONE_S, &error);
        if (at == 0.0 || error) fail("the samples of a packet did not arrive within %g s", GONE_S);
        if (at > stamp - 0.1 / rate) {
            if (count < n - 1) fail("a packet has %d samples, not %d", count + 1, n);
            return;
        }
    }
}

/* The digest of a packet, over little-endian float32 as this machine has them. */
static void check_digest(int n) {
    sha256 hash;
    uint8_t digest[32];
    char wanted[40], found[65];
    if (!field(text, "digest", wanted, sizeof wanted)) return; /* a replay of version 1 */
    sha256_begin(&hash);
    for (int i = 0; i < n; i++) sha256_add(&hash, samples[i], (size_t)channels * sizeof(float));
    sha256_end(&hash, digest);
    hexadecimal(digest, 16, found);
    if (strcmp(wanted, found) != 0) fail("the samples of a packet are not those that the replay sent");
}

/* --- the algorithm: put your own here -------------------------------------------------------- */

enum { CODE_IMAGERY = 200, CLASSES = 3 };
static const char *const LEADS[CLASSES] = {"C4", "C3", "Cz"}; /* of results 1 (left), 2 (right), 3 (feet) */
static const double CENTRE_HZ = 11.0, WIDTH = 0.97, REST_S = 4.0;

static int place[CLASSES]; /* of each lead */
static double in[CLASSES][2], out[CLASSES][2]; /* the last two values before and behind the filter */
static double rest[CLASSES], before[CLASSES], during[CLASSES]; /* power: running, before and in the trial */
static int since; /* samples after the trigger's packet; -1: no trial */

/* A subject begins: find the leads by their names. */
static void start_subject(const char *session) {
    char names[MOST_FIELD] = "";
    field(session, "leads", names, sizeof names);
    for (int k = 0; k < CLASSES; k++) {
        int number = 0, found = -1;
        for (const char *at = skip(names, " ["); *at == '"'; at = skip(behind(at), " ,"), number++)
            if (strncmp(at + 1, LEADS[k], strlen(LEADS[k])) == 0 && at[1 + strlen(LEADS[k])] == '"') found = number;
        if (found < 0) fail("the signal has no lead %s", LEADS[k]);
        place[k] = found;
        in[k][0] = in[k][1] = out[k][0] = out[k][1] = rest[k] = 0;
    }
    since = -1;
}

/* One packet: n rows of `samples`, leads in microvolts, TRIGGER last. */
static void decode_packet(int n) {
    double first = 2 * WIDTH * cos(2 * 3.14159265358979 * CENTRE_HZ / rate), second = -WIDTH * WIDTH;
    int trigger = 0, best = 0;
    for (int i = 0; i < n; i++) trigger |= samples[i][channels - 1] == CODE_IMAGERY;
    since = trigger ? 0 : since < 0 ? -1 : since + n;
    for (int k = 0; k < CLASSES && trigger; k++) before[k] = rest[k], during[k] = 0;
    for (int i = 0; i < n; i++) {
        double mean = 0;
        for (int lead = 0; lead < channels - 1; lead++) mean += samples[i][lead] / (channels - 1);
        for (int k = 0; k < CLASSES; k++) {
            double x = samples[i][place[k]] - mean; /* the common average is the reference */
            double y = x - in[k][1] + first * out[k][0] + second * out[k][1];
            in[k][1] = in[k][0], in[k][0] = x, out[k][1] = out[k][0], out[k][0] = y;
            rest[k] += (y * y - rest[k]) / (REST_S * rate);
            if (since > 0) during[k] += y * y;
        }
    }
    for (int k = 1; k < CLASSES; k++)
        if (during[k] * before[best] < during[best] * before[k]) best = k;
    for (int seconds = 2; seconds <= 4 && since > 0; seconds++) { /* a report each, one packet before its limit */
        double left = seconds * rate - since;
        if (left >= n && left < 2 * n) send_message("report", ",\"result\":%d", best + 1);
    }
}

/* --- a run ----------------------------------------------------------------------------------- */

static long decode(int lockstep) {
    char value[MOST_FIELD];
    long packets = 0;
    int started = 0;
    for (double last = lsl_local_clock();;) {
        if (!next_text(control, AGAIN_S)) {
            if (lsl_local_clock() - last > GONE_S) fail("the replay is gone");
            if (!started) send_message("ready", "%s", "");
            continue;
        }
        last = lsl_local_clock();
        if (is_for_us("session")) {
            field(text, "rate", value, sizeof value);
            rate = atof(value);
            start_subject(text);
            if (lockstep && !started) send_message("next", ",\"packet\":%d", 0);
            started = 1;
        } else if (is_for_us("stopped")) {
            field(text, "reason", value, sizeof value);
            fail("the replay stopped: %s", value);
        } else if (is_for_us("packet")) {
            field(text, "n", value, sizeof value);
            int n = atoi(value);
            if (n < 1 || n > MOST_SAMPLES || !started) fail("a packet of %d samples", n);
            read_samples(n);
            check_digest(n);
            decode_packet(n);
            packets++;
            if (is(text, "finish", "true")) return packets;
            field(text, "i", value, sizeof value);
            if (lockstep) send_message("next", ",\"packet\":%ld", atol(value) + 1);
        }
    }
}

/* Stay until the judge has the run in its log: an outlet that closes loses what it still holds. */
static void await_closed(void) {
    char source[600];
    snprintf(source, sizeof source, "bci/%s/judge/", contest);
    lsl_inlet judge = open_inlet(source, 5.0);
    for (double end = lsl_local_clock() + GONE_S; judge && lsl_local_clock() < end;)
        if (next_text(judge, 0.5) && is_for_us("closed")) {
            lsl_destroy_inlet(judge);
            return;
        }
    fail("the judge did not confirm the run");
}

int main(int count, char **words) {
    if (count < 4 || count > 5) fail("usage: client CONTEST TEAM TOKEN_FILE [LSL_SESSION]");
    char config[600], name[300], source[300];
    contest = words[1], team = words[2];
    read_token(words[3]);
    snprintf(config, sizeof config,
             "[ports]\nPortRange = 512\nIPv6 = disable\n"
             "[multicast]\nResolveScope = machine\nAddressesOverride = {127.0.0.1}\n"
             "[lab]\nKnownPeers = {127.0.0.1}\nSessionID = %s\n[log]\nlevel = -3\n",
             count == 5 ? words[4] : "default");
    lsl_set_config_content(config); /* for a replay on this machine; without it: liblsl's own settings */
    snprintf(name, sizeof name, "%s-%s-results", contest, team);
    snprintf(source, sizeof source, "bci/%s/results/%s", contest, team);
    lsl_streaminfo described = lsl_create_streaminfo(name, "BCI-Results", 1, 0.0, FORMAT_STRING, source);
    results = lsl_create_outlet(described, 0, 360);
    lsl_streaminfo published = lsl_get_info(results); /* a copy, which is ours to free */
    snprintf(uid, sizeof uid, "%s", lsl_get_uid(published));
    lsl_destroy_streaminfo(published);
    lsl_destroy_streaminfo(described);
    sequence = (long long)time(NULL) * 1000000; /* grows, also over a restart */
    long packets = decode(join());
    send_message("done", "%s", ",\"reason\":\"finished\",\"detail\":\"\"");
    await_closed();
    lsl_destroy_inlet(signal_inlet);
    lsl_destroy_inlet(control);
    lsl_destroy_outlet(results);
    printf("done: %ld packets\n", packets);
    return 0;
}
