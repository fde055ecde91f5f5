#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

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
/// CUDA stream, and its work is launched on that stream. Hooks, buffer pool, prefetch and tracer
/// are written against this contract and know no device. A simulated device only records its work
/// (plan/simulated.h).
///
/// Twins: device.cpp (CPU), device.cu (CUDA).

/// The place where memory lies and work runs: the host, or an NVIDIA GPU. A simulated device stands
/// for one of them, and has neither memory nor arithmetic.
enum class Device { cpu, cuda, simulated_cpu, simulated_cuda };

/// Whether the device is simulated. Tensors there have shapes, but no values.
constexpr bool is_simulated(Device device) { return device >= Device::simulated_cpu; }

/// The number of a byte in a device's memory; 0 stands for no memory. It has 64 bits even if the
/// pointers of the host have fewer, for a simulated device may have more memory than the host can
/// address.
using Address = std::uint64_t;
inline Address address_of(const void* memory) { return std::uintptr_t(memory); }
/// The pointer to an address, on a device that is not simulated.
inline void* pointer_to(Address address) {
  return reinterpret_cast<void*>(std::uintptr_t(address));
}

/// Says why this process cannot compute on `device`: this build has no CUDA, there is no driver, or
/// the driver is too old. The text is empty if it can. The call does not start CUDA, so the process
/// may still fork.
std::string why_not(Device device);

/// Whether kernels of this device compute with bfloat16 operands. A CPU widens them first. Every
/// GPU for which we compile can: the lowest compute capability is 8.0.
constexpr bool has_bfloat16_arithmetic(Device device) {
  return device == Device::cuda || device == Device::simulated_cuda;
}

/// Makes the calling thread use device `local_rank` of the machine. If there are fewer devices, the
/// count begins again at the first.
/// @return `device`
/// @throws Error if the machine has none
Device use_device(Device device, int local_rank);

/// Allocates zeroed memory, aligned to 64 bytes. The caller owns it (Buffer).
/// @throws Error if there is not enough
void* allocate_memory(Device device, std::size_t bytes);
/// Frees memory that allocate_memory() returned. Does nothing on a simulated device.
void release_memory(Device device, void* memory) noexcept;

class Stream;

/// A point in a stream's work. Copies refer to the same point; a default Event has always passed.
class Event {
 public:
  Event() = default;

  /// Whether all work before the point is done.
  bool ready() const { return !state_ || state_->ready(); }

  /// Blocks the host until all work before the point is done. If the stream's work has thrown, it
  /// throws the same.
  void synchronize() const {
    if (state_) state_->synchronize();
  }

  /// The event of one kind of stream.
  struct State {
    virtual ~State() = default;
    virtual bool ready() = 0;        ///< see Event::ready()
    virtual void synchronize() = 0;  ///< see Event::synchronize()
  };
  /// Makes an event with this state. Streams call it.
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State* state() const { return state_.get(); }  ///< null: has always passed

  std::size_t span = 0;  ///< the number of the traced work that ends here (base/tracer.h)

 private:
  std::shared_ptr<State> state_;
};

/// The body of a loop over a range of indices, which is called as body(begin, end).
using RangeBody = std::function<void(std::int64_t, std::int64_t)>;

/// A FIFO of work. One thread enqueues. If work throws on the CPU's compute stream, enqueue()
/// throws the same, and later work runs. On any other stream, failed work fails everything after
/// it.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream() = default;
  Stream(Stream&&) = delete;  // so it cannot be copied either

  virtual Device device() const { return Device::cpu; }  ///< the device on which its work runs

  /// Enqueues work. On CUDA, `work` launches kernels on the stream, and is called at once.
  virtual void enqueue(std::function<void()> work) = 0;

  /// The same, for work that states its cost, which a simulated stream needs. If work does not
  /// state it, a simulated stream assumes that it writes all memory that was allocated since the
  /// last work, and reads the same number of bytes.
  virtual void enqueue(const Cost&, std::function<void()> work) { enqueue(std::move(work)); }

  /// When the stream reaches this point, it writes the time to `when`, on the clock of
  /// now_seconds(). On CUDA it is the time of this call.
  /// @param when must outlive the stream's work
  virtual void note(double& when);

  /// Says that memory for the next work has been allocated. A simulated stream counts it.
  virtual void allocated(std::uint64_t /*bytes*/) {}

  /// Enqueues work that takes this long, and nothing else. Only a CUDA stream can do it.
  virtual void hold(std::chrono::duration<double> /*time*/) {}

  /// The point after all work enqueued so far.
  virtual Event record() = 0;

  /// Orders everything enqueued later after `event`.
  virtual void wait(const Event& event) = 0;

  /// Blocks the host until the stream is empty. @throws what its work threw
  virtual void synchronize() = 0;

  /// How many threads parallel_for uses, at least 1.
  virtual int threads() const { return 1; }

  /// Runs `body(begin, end)` over [0, n) cut into at most threads() equal ranges of at least
  /// `grain` indices (the last may be shorter). The cut depends on n, grain and threads() alone.
  /// For work inside the stream.
  template <class F>
  void parallel_for(std::int64_t n, std::int64_t grain, const F& body) {
    // A std::function of a reference allocates nothing.
    if (n > 0) parallel_ranges(n, grain, std::cref(body));
  }

  /// The same for a body that takes one index: each range calls `body(i)` for its indices in order.
  template <std::invocable<std::int64_t> F>
  void parallel_for(std::int64_t n, std::int64_t grain, const F& body) {
    parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; ++begin) body(begin);
    });
  }

 private:
  virtual void parallel_ranges(std::int64_t n, std::int64_t, const RangeBody& body) { body(0, n); }
};

/// Makes the stream for operators. On a CPU the caller's thread runs the work, and its loops use
/// `threads` threads.
std::unique_ptr<Stream> make_compute_stream(Device device, int threads);

/// Makes a stream for collectives. On a CPU it is a thread of its own, and the loops of its work
/// use `threads` threads.
std::unique_ptr<Stream> make_communication_stream(Device device, int threads = 1);

/// The time in seconds, on a clock that all processes of a host share.
double now_seconds();

}  // namespace nanofsdp
