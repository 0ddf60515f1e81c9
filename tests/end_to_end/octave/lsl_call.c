/* The functions of liblsl that scripts/clients/client.m needs, for GNU Octave: lsl_call(NAME, ...). Compiled by
 * tests/end_to_end/test_clients.py; the .m files beside it have the names and values of liblsl-Matlab's. */

#include <stdint.h>
#include <string.h>

#include "mex.h"

typedef struct lsl_streaminfo_struct_ *lsl_streaminfo;
typedef struct lsl_inlet_struct_ *lsl_inlet;
typedef struct lsl_outlet_struct_ *lsl_outlet;
enum { FORMAT_STRING = 3, MOST_CHANNELS = 1024 };

lsl_streaminfo lsl_create_streaminfo(const char *name, const char *type, int32_t channels, double rate,
                                     int format, const char *source_id);
int32_t lsl_get_channel_count(lsl_streaminfo info);
int lsl_get_channel_format(lsl_streaminfo info);
lsl_outlet lsl_create_outlet(lsl_streaminfo info, int32_t chunk, int32_t max_buffered);
int32_t lsl_push_sample_str(lsl_outlet outlet, const char **texts);
int32_t lsl_resolve_bypred(lsl_streaminfo *found, uint32_t most, const char *predicate, int32_t least,
                           double timeout_s);
lsl_inlet lsl_create_inlet(lsl_streaminfo info, int32_t max_buffered, int32_t max_chunk, int32_t recover);
void lsl_open_stream(lsl_inlet inlet, double timeout_s, int32_t *error);
double lsl_pull_sample_str(lsl_inlet inlet, char **texts, int32_t count, double timeout_s, int32_t *error);
double lsl_pull_sample_d(lsl_inlet inlet, double *values, int32_t count, double timeout_s, int32_t *error);
void lsl_destroy_string(char *text);
void lsl_destroy_inlet(lsl_inlet inlet);
void lsl_destroy_outlet(lsl_outlet outlet);

/* Octave unloads liblsl when it ends. Threads of liblsl that still run then have no code any more (SIGSEGV), so
 * that what has threads is destroyed first. */
enum { MOST_INLETS = 8 };
static lsl_inlet inlets[MOST_INLETS];
static int n_inlets;
static lsl_outlet outlet;

static void destroy_all(void) {
    while (n_inlets > 0) lsl_destroy_inlet(inlets[--n_inlets]);
    if (outlet != NULL) lsl_destroy_outlet(outlet);
    outlet = NULL;
}

static mxArray *wrapped(void *pointer) {
    mxArray *made = mxCreateNumericMatrix(1, 1, mxUINT64_CLASS, mxREAL);
    *(uint64_t *)mxGetData(made) = (uint64_t)(uintptr_t)pointer;
    return made;
}

static void *pointer_in(const mxArray *value) { return (void *)(uintptr_t) * (uint64_t *)mxGetData(value); }

static void pull(int n_out, mxArray *out[], lsl_inlet inlet, int channels, int is_text, double timeout_s) {
    double values[MOST_CHANNELS], stamp;
    char *text = NULL;
    int32_t error = 0;
    if (channels > MOST_CHANNELS) mexErrMsgTxt("the stream has too many channels");
    if (is_text)
        stamp = lsl_pull_sample_str(inlet, &text, 1, timeout_s, &error);
    else
        stamp = lsl_pull_sample_d(inlet, values, channels, timeout_s, &error);
    if (error) mexErrMsgTxt("the stream has been lost");
    int arrived = stamp != 0.0;
    if (is_text) {
        out[0] = mxCreateCellMatrix(arrived, arrived);
        if (arrived) mxSetCell(out[0], 0, mxCreateString(text));
        if (arrived) lsl_destroy_string(text);
    } else {
        out[0] = mxCreateDoubleMatrix(arrived, arrived ? channels : 0, mxREAL);
        if (arrived) memcpy(mxGetPr(out[0]), values, (size_t)channels * sizeof *values);
    }
    if (n_out > 1) out[1] = arrived ? mxCreateDoubleScalar(stamp) : mxCreateDoubleMatrix(0, 0, mxREAL);
}

void mexFunction(int n_out, mxArray *out[], int n_in, const mxArray *in[]) {
    const char *name = mxArrayToString(in[0]);
    int32_t error = 0;
    (void)n_in;
    mexAtExit(destroy_all);
    if (strcmp(name, "outlet") == 0) {
        lsl_streaminfo info = lsl_create_streaminfo(mxArrayToString(in[1]), mxArrayToString(in[2]), 1, 0,
                                                    FORMAT_STRING, mxArrayToString(in[3]));
        if (outlet != NULL) mexErrMsgTxt("there is an outlet already");
        outlet = lsl_create_outlet(info, 0, 360);
        out[0] = wrapped(outlet);
    } else if (strcmp(name, "push") == 0) {
        const char *texts[1] = {mxArrayToString(in[2])};
        lsl_push_sample_str(pointer_in(in[1]), texts);
    } else if (strcmp(name, "resolve") == 0) {
        lsl_streaminfo found[1];
        int n = lsl_resolve_bypred(found, 1, mxArrayToString(in[1]), 1, mxGetScalar(in[2]));
        out[0] = mxCreateCellMatrix(n > 0, n > 0);
        if (n > 0) mxSetCell(out[0], 0, wrapped(found[0]));
    } else if (strcmp(name, "inlet") == 0) {
        lsl_streaminfo info = pointer_in(in[1]);
        if (n_inlets == MOST_INLETS) mexErrMsgTxt("there are too many inlets");
        inlets[n_inlets] = lsl_create_inlet(info, 360, 0, 1);
        out[0] = wrapped(inlets[n_inlets++]);
        out[1] = mxCreateDoubleScalar(lsl_get_channel_count(info));
        out[2] = mxCreateDoubleScalar(lsl_get_channel_format(info) == FORMAT_STRING);
    } else if (strcmp(name, "open") == 0) {
        lsl_open_stream(pointer_in(in[1]), mxGetScalar(in[2]), &error);
        if (error) mexErrMsgTxt("the stream can't be opened");
    } else if (strcmp(name, "pull") == 0) {
        pull(n_out, out, pointer_in(in[1]), (int)mxGetScalar(in[2]), mxGetScalar(in[3]) != 0, mxGetScalar(in[4]));
    } else {
        mexErrMsgTxt("lsl_call has no such function");
    }
}
