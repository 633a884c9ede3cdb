#include "pool.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace ingot::cpu {
namespace {

// About 40 us of looking before a worker sleeps: longer than the gap between
// two operations of a decode step, shorter than a client's pause for thought.
constexpr int kSpins = 1500;

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// A ticket holds a run's number, its task count and the next task in one word,
// so that a late worker can never take a task of a run that it has not seen.
constexpr int kBits = 20;
constexpr uint64_t kMask = (1u << kBits) - 1;
constexpr int kMaxTasks = (int)kMask;
uint64_t ticket_of(uint64_t run, int tasks) { return run << 2 * kBits | (uint64_t)tasks << kBits; }
int tasks_of(uint64_t t) { return (int)(t >> kBits & kMask); }
int next_of(uint64_t t) { return (int)(t & kMask); }

class Pool {
 public:
  explicit Pool(int n) {
    for (int i = 1; i < n; i++) workers_.emplace_back([this, i] { work(i); });
  }

  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }

  int size() const { return (int)workers_.size() + 1; }

  void run(int tasks, void (*fn)(void*, int, int), void* ctx) {
    fn_ = fn;
    ctx_ = ctx;
    left_.store(tasks, std::memory_order_relaxed);
    ticket_.store(ticket_of(++run_, tasks), std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst) > 0) {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    drain(0);
    for (int i = 0; left_.load(std::memory_order_acquire) != 0; i++) {
      if (i < kSpins) pause_cpu();
      else std::this_thread::yield();
    }
  }

 private:
  // Takes tasks until there are none. fn_ and ctx_ may be read after a taken
  // ticket only: the run can't end before that task has.
  void drain(int thread) {
    uint64_t t = ticket_.load(std::memory_order_acquire);
    while (next_of(t) < tasks_of(t)) {
      if (!ticket_.compare_exchange_weak(t, t + 1, std::memory_order_acq_rel)) continue;
      fn_(ctx_, next_of(t), thread);
      left_.fetch_sub(1, std::memory_order_acq_rel);
      t = ticket_.load(std::memory_order_acquire);
    }
  }

  bool idle() const {
    uint64_t t = ticket_.load(std::memory_order_seq_cst);
    return next_of(t) >= tasks_of(t);
  }

  void work(int thread) {
    std::string name = "ingot-cpu-" + std::to_string(thread);
#if defined(__APPLE__)
    pthread_setname_np(name.c_str());
#else
    pthread_setname_np(pthread_self(), name.c_str());
#endif
    for (;;) {
      drain(thread);
      int spins = 0;
      while (idle() && spins < kSpins) {
        pause_cpu();
        spins++;
      }
      if (spins < kSpins) continue;
      std::unique_lock lock(mutex_);
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [this] { return stop_ || !idle(); });
      asleep_.fetch_sub(1, std::memory_order_seq_cst);
      if (stop_) return;
    }
  }

  std::vector<std::thread> workers_;
  void (*fn_)(void*, int, int) = nullptr;
  void* ctx_ = nullptr;
  uint64_t run_ = 0;
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int> left_{0};
  alignas(64) std::atomic<int> asleep_{0};

  std::mutex mutex_;  // guards stop_ and the way to sleep
  std::condition_variable wake_;
  bool stop_ = false;
};

int default_threads() {
  if (const char* s = getenv("INGOT_THREADS")) {
    int n = atoi(s);
    if (n > 0) return std::min(n, 256);
  }
  int cores = (int)std::thread::hardware_concurrency();
  return std::clamp(cores, 1, 8);
}

std::mutex busy;  // held by the thread that is in run(); guards pool()

// Never destroyed: MLX's stream thread may outlive static destruction.
std::unique_ptr<Pool>& pool() {
  static auto* p = new std::unique_ptr<Pool>(new Pool(default_threads()));
  return *p;
}

std::atomic<int> size{0};

}  // namespace

int pool_threads() {
  int n = size.load();
  if (n > 0) return n;
  std::lock_guard lock(busy);
  size = pool()->size();
  return size;
}

void pool_resize(int n) {
  std::lock_guard lock(busy);
  n = n > 0 ? n : default_threads();
  if (pool()->size() == n) return;
  pool().reset(new Pool(n));
  size = n;
}

void pool_run(int tasks, void (*fn)(void*, int, int), void* ctx) {
  std::unique_lock lock(busy, std::defer_lock);
  if (tasks <= 1 || tasks > kMaxTasks || !lock.try_lock() || pool()->size() == 1) {
    for (int i = 0; i < tasks; i++) fn(ctx, i, 0);
    return;
  }
  pool()->run(tasks, fn, ctx);
}

namespace {
constexpr size_t kLine = 16;  // floats in a cache line
size_t whole_lines(size_t n) { return (n + kLine - 1) / kLine * kLine; }

struct Block {
  float* p = nullptr;
  size_t floats = 0;
  ~Block() { drop(); }
  void drop() {
    ::operator delete(p, std::align_val_t(64));
    p = nullptr;
    floats = 0;
  }
  void need(size_t n) {
    if (floats >= n) return;
    drop();
    p = static_cast<float*>(::operator new(n * sizeof(float), std::align_val_t(64)));
    floats = n;
  }
};
}  // namespace

Scratch::Scratch(size_t each, size_t shared) {
  thread_local Block block;
  stride_ = whole_lines(each) + kLine;  // no two threads write the same line
  const size_t common = whole_lines(shared);
  block.need(common + stride_ * (size_t)pool_threads());
  base_ = block.p;
  own_ = base_ + common;
}

}  // namespace ingot::cpu
