// The worker threads that all kernels share.
#pragma once

#include <stddef.h>

#include <utility>

namespace ingot::cpu {

// Threads that take part in run(), the caller included.
int pool_threads();

// Fixes the number of threads before the first use, or changes it between
// runs (tests do). n <= 0: INGOT_THREADS, else min(cores, 8).
void pool_resize(int n);

// Calls fn(ctx, task, thread) for every task in [0, tasks), each once, on any
// thread; returns when all are done. Tasks must be independent of each other
// and must not throw. While another thread is in run(), the caller does all of
// its tasks itself.
void pool_run(int tasks, void (*fn)(void* ctx, int task, int thread), void* ctx);

// At least `each` floats for every thread and `shared` for all of them, 64-byte
// aligned, valid until the calling thread makes another. Throws std::bad_alloc.
class Scratch {
 public:
  explicit Scratch(size_t each, size_t shared = 0);
  float* shared() const { return base_; }
  float* of(int thread) const { return own_ + stride_ * (size_t)thread; }

 private:
  float* base_;
  float* own_;
  size_t stride_;
};

template <class F>
void parallel(int tasks, F&& f) {
  pool_run(tasks, [](void* c, int task, int thread) { (*static_cast<F*>(c))(task, thread); }, &f);
}

}  // namespace ingot::cpu
