#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "base/cost.h"

namespace nanofsdp {

/// @file
/// @brief Devices, streams and events: the one contract for time, on CPU and GPU alike.
///
/// A Stream is a FIFO of work. Work enqueued on one stream runs in order; work on two streams is
/// ordered only where one waits for an Event recorded on the other:
///
///     Event gathered = gather.record();   // after everything enqueued on `gather` so far
///     compute.wait(gathered);             // what `compute` does next comes after that
///
/// On the CPU the compute stream runs its work inline, on the caller's thread, so waiting on it
/// blocks that thread; a communication stream is a thread of its own. On CUDA every stream is a
/// CUDA stream, and work is what is launched on it. Hooks, buffer pool, prefetch and tracer are
/// written against this contract and know no device. A simulated device writes down what it is
/// asked for (plan/simulated.h).
///
/// Twins: device.cpp (CPU), device.cu (CUDA).

/// Where memory lies and work runs: the host, or an NVIDIA GPU; or what stands for one of them,
/// without memory and without arithmetic.
enum class Device { cpu, cuda, simulated_cpu, simulated_cuda };

/// Whether tensors there have shapes, but no values.
constexpr bool is_simulated(Device device) { return device >= Device::simulated_cpu; }

/// The number of a byte in a device's memory; 0: of none. It has 64 bits, also where pointers of
/// the host have fewer: a simulated device has more memory than a browser has.
using Address = std::uint64_t;
inline Address address_of(const void* memory) { return std::uintptr_t(memory); }
/// Of a device with memory.
inline void* pointer_to(Address address) {
  return reinterpret_cast<void*>(std::uintptr_t(address));
}

/// Why this process cannot compute on `device`: no such build, no driver, too old a driver. Empty
/// if it may. Starts nothing, so the process may still fork: CUDA does not survive that.
std::string why_not(Device device);

/// Whether kernels of this device compute with bfloat16 operands. A CPU has to widen them first. A
/// GPU does from compute capability 8.0 on, the lowest that is compiled for.
constexpr bool has_bfloat16_arithmetic(Device device) {
  return device == Device::cuda || device == Device::simulated_cuda;
}

/// Makes the calling thread use the machine's device number `local_rank`, counted round.
/// @return `device`
/// @throws Error if the machine has none
Device use_device(Device device, int local_rank);

/// How many of these devices the machine has.
int count_devices(Device device);

/// Memory of a device that has some, zeroed, aligned to 64 bytes. Its owner is the caller (Buffer).
/// @throws Error if there is not enough
void* allocate_memory(Device device, std::size_t bytes);
/// Frees what allocate_memory() gave on this device; of a simulated one there is nothing to free.
void release_memory(Device device, void* memory) noexcept;

class Stream;

/// A point in a stream's work. Copies refer to the same point; a default Event has always passed.
class Event {
 public:
  Event() = default;

  /// True once all work before the point is done.
  bool ready() const;

  /// Blocks the host until then. @throws what the stream's work threw, if it failed
  void synchronize() const;

  /// What a kind of stream knows of its points.
  struct State {
    virtual ~State() = default;
    virtual bool ready() = 0;        ///< as Event::ready()
    virtual void synchronize() = 0;  ///< as Event::synchronize()
  };
  /// For the makers of streams: an event with this state.
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State* state() const { return state_.get(); }  ///< null: has always passed

  std::size_t span = 0;  ///< the number of the traced work that ends here (base/tracer.h)

 private:
  std::shared_ptr<State> state_;
};

/// Loop body over a range of indices, without the allocation of std::function.
class RangeBody {
 public:
  /// @param body outlives this object; called as body(begin, end)
  template <class F>
  explicit RangeBody(const F& body)
      : object_(&body), call_([](const void* object, std::int64_t begin, std::int64_t end) {
          (*static_cast<const F*>(object))(begin, end);
        }) {}
  /// Calls the body.
  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, std::int64_t);
};

/// A FIFO of work. One thread enqueues; a failed piece of work fails everything after it.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual Device device() const { return Device::cpu; }  ///< on which its work runs

  /// CUDA: `work` launches on the stream, and is called at once.
  virtual void enqueue(std::function<void()> work) = 0;

  /// The same, of work that says what it costs. A simulated stream asks; where it is not told, it
  /// takes it that the work writes what was allocated since the last, and reads as much.
  virtual void enqueue(const Cost&, std::function<void()> work) { enqueue(std::move(work)); }

  /// Writes the time when the stream comes to what is enqueued next, on the clock of now_seconds().
  /// @param when outlives the stream's work
  virtual void note(double& when);

  /// Says that memory for the next work has been allocated: what it costs, if it does not say.
  virtual void allocated(std::uint64_t /*bytes*/) {}

  /// The point after all work enqueued so far.
  virtual Event record() = 0;

  /// Orders everything enqueued later after `event`.
  virtual void wait(const Event& event) = 0;

  /// Blocks the host until the stream is empty. @throws what its work threw
  virtual void synchronize() = 0;

  /// Threads that parallel_for uses, at least 1.
  virtual int threads() const { return 1; }

  /// Runs `body(begin, end)` over [0, n) cut into at most threads() equal ranges of at least
  /// `grain` indices (the last may be shorter). The cut depends on n, grain and threads() alone.
  /// For work inside the stream.
  template <class F>
  void parallel_for(std::int64_t n, std::int64_t grain, const F& body) {
    if (n > 0) parallel_ranges(n, grain, RangeBody(body));
  }

 private:
  virtual void parallel_ranges(std::int64_t n, std::int64_t, const RangeBody& body) { body(0, n); }
};

/// The stream for operators: inline on the CPU, `threads` wide.
std::unique_ptr<Stream> make_compute_stream(Device device, int threads);

/// A stream for collectives: on the CPU a thread of its own, and the loops of its work are
/// `threads` wide.
std::unique_ptr<Stream> make_communication_stream(Device device, int threads = 1);

/// Seconds of a clock that runs alike in all processes of a host.
double now_seconds();

}  // namespace nanofsdp
