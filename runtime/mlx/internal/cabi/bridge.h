// The C ABI between Go and MLX. Every entry returns a status; a failed one
// leaves its reason in the caller's text buffer. Nothing throws across it.
//
// Calls belong to the device thread, the one that called ig_open; elsewhere
// they return IG_THREAD and do nothing. Exceptions: the ledger's readings and
// limits, the memory figures and ig_on_thread, which any thread may call.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// An owned reference to an array; 0 is none.
typedef uintptr_t ig_array;

enum ig_status { IG_OK, IG_INVALID, IG_RESOURCE, IG_MEMORY, IG_LAUNCH, IG_DEVICE, IG_THREAD };
enum ig_kind { IG_AUTO, IG_CPU, IG_GPU };

enum {
  IG_MAX_IN = 512,
  IG_MAX_OUT = 64,
  IG_MAX_INTS = 1024,
  IG_MAX_FLOATS = 4,
  IG_MAX_DIMS = 8,
  IG_MAX_TEXT = 512,
};

typedef struct ig_out {
  ig_array array;
  int32_t dtype;
  int32_t ndim;
  int32_t dims[IG_MAX_DIMS];
} ig_out;

// One operation: filled by the caller, answered in place. It holds no pointers,
// so Go passes its own memory without checks or pinning.
typedef struct ig_call {
  int32_t op, nin, nints, nfloats, nout;
  ig_array in[IG_MAX_IN];  // 0: the optional input is absent
  int32_t ints[IG_MAX_INTS];
  double floats[IG_MAX_FLOATS];
  ig_out out[IG_MAX_OUT];
  char text[IG_MAX_TEXT];
} ig_call;

// The index of an operation of bridge_ops.cc, or -1.
int ig_op(const char* name);
int ig_run(ig_call* c);

// ints: dtype, dims... ; copies n bytes in, or leaves them to the caller when data is null.
int ig_new(ig_call* c, const void* data, size_t n);
// The bytes of an evaluated, row-contiguous array.
int ig_bytes(ig_array a, uintptr_t* data, size_t* n, char* text);
// Evaluates a and copies it, converted to dtype, row by row.
int ig_read(ig_array a, int dtype, void* dst, size_t n, char* text);
int ig_eval(const ig_array* in, size_t n, int wait, char* text);
int ig_synchronize(char* text);
// The array itself if it was evaluated, else the nearest first input that was; consumes in[0].
int ig_recover(ig_call* c);
int ig_free(const ig_array* in, size_t n);
// The status that an exception's text gets, while a graph is built or as it runs. Any thread.
int ig_classify(const char* what, int running);
// Handles not freed yet.
int64_t ig_handles(void);

// Makes this thread the device thread. Installs the ledger first.
int ig_open(int kind, int* opened, char* text);
void ig_close(void);
int ig_on_thread(void);

typedef struct ig_ledger {
  int64_t live, peak, total, limit;                          // buffers
  int64_t live_bytes, peak_bytes, total_bytes, limit_bytes;  // bytes, as the allocator rounds them
  int64_t cached_upper;                                      // buffers freed since the cache was last cleared
  int64_t fired;                                             // faults that FailAt caused
  int32_t supported;
} ig_ledger;

void ig_ledger_read(ig_ledger* l);
void ig_ledger_reset_peak(void);
void ig_ledger_set_limits(int64_t buffers, int64_t bytes);  // 0: none
void ig_ledger_fail_at(int64_t n);                          // 0: never
void ig_ledger_clear_cache(void);
// Waits, at most limit_us, until live has not moved for quiet_us.
void ig_ledger_settle(int64_t limit_us, int64_t quiet_us);

enum ig_figure { IG_ACTIVE, IG_PEAK, IG_CACHE, IG_MEMORY_LIMIT };
size_t ig_memory(int figure);
// What the process occupies: resident bytes, on macOS its footprint; 0 where the system does not say.
uint64_t ig_process_bytes(void);
enum ig_setting { IG_SET_MEMORY, IG_SET_CACHE, IG_SET_WIRED };
int ig_set_memory(int setting, size_t bytes, size_t* old, char* text);

typedef struct ig_info {
  uint64_t resource_limit, memory, working_set;
  char architecture[64];
} ig_info;
int ig_device_info(ig_info* info, char* text);
// Where mlx.metallib lies; before ig_open. Nothing where MLX has no Metal.
int ig_set_metallib(const char* path, char* text);

#ifdef __cplusplus
}
#endif
