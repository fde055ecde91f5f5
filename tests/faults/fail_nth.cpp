/// @file
/// @brief A library to preload: the n-th call of one kind fails in one rank, once.
///
/// NANOFSDP_FAIL="kind:rank:n:board" says which. `board` is a file of numbers of 64 bits, as Board
/// has them: the library counts there the calls of each rank, and says where a call has failed.
/// With n = 0 it only counts. Rank 0 is the process itself or the first that it forks; the rank of
/// a launcher is the last one. The calls count while main() runs.

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr int kRanks = 8, kLauncher = kRanks - 1, kPlaces = 24;

struct Board {
  std::atomic<long> calls[kRanks];
  std::atomic<long> failed;  // 1 if a call has failed
  long places[kPlaces];      // its callers' places in the program, from its first byte
};

// The words of the environment. The plan is on while main() runs.
struct Plan {
  char kind[16] = "";
  int rank = 0;
  long n = 0;
  Board* board = nullptr;
  int mine = 0, forks = 0;
  std::atomic<bool> on{false};
};
Plan plan;

using Main = int(int, char**, char**);
Main* real_main = nullptr;

void note_places() {
  void* callers[kPlaces];
  Dl_info program;
  const int count = backtrace(callers, kPlaces);
  dladdr(reinterpret_cast<void*>(real_main), &program);
  for (int i = 0; i < count; ++i) {
    plan.board->places[i] = static_cast<char*>(callers[i]) - static_cast<char*>(program.dli_fbase);
  }
}

// Counts a call of this kind. Returns whether it must fail, and sets errno then.
bool fails(const char* kind, int error) {
  if (!plan.on || std::strcmp(plan.kind, kind) != 0) return false;
  const long call = ++plan.board->calls[plan.mine];
  if (plan.mine != plan.rank || call != plan.n) return false;
  plan.board->failed = 1;
  note_places();
  errno = error;
  return true;
}

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool is_on_disk(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

bool is_socket(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 && S_ISSOCK(status.st_mode);
}

// The kind of an open: a new or changed file, or one that is only read.
bool open_fails(int flags) {
  return (flags & O_ACCMODE) == O_RDONLY ? fails("read", EIO) : fails("write", ENOSPC);
}

void read_plan() {
  const char* const text = std::getenv("NANOFSDP_FAIL");
  char path[1024] = "";
  if (text == nullptr) return;
  if (std::sscanf(text, "%15[^:]:%d:%ld:%1023s", plan.kind, &plan.rank, &plan.n, path) != 4)
    abort();
  const int file = open(path, O_RDWR | O_CLOEXEC);
  void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) abort();
  close(file);
  plan.board = static_cast<Board*>(memory);
  const char* const rank = std::getenv("RANK");
  plan.mine = rank != nullptr ? std::atoi(rank) : 0;
}

int counted_main(int count, char** arguments, char** environment) {
  read_plan();
  void* nobody[1];
  backtrace(nobody, 1);  // the first call takes memory
  plan.on = plan.board != nullptr;
  const int code = real_main(count, arguments, environment);
  plan.on = false;
  return code;
}

}  // namespace

// A function with the C library's name that fails as `kind`, or calls the C library's. `failure` is
// what it then returns, and `if_` says which calls count.
#define FAILING(kind, error, failure, if_, type, name, parameters, ...)             \
  extern "C" type name parameters {                                                 \
    static const auto call = real(static_cast<type(*) parameters>(nullptr), #name); \
    if ((if_) && fails(kind, error)) return failure;                                \
    return call(__VA_ARGS__);                                                       \
  }

// ---- memory. dlsym() itself allocates, so these use the C library's own names, or those of the
// address sanitizer if the program has it.

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
[[gnu::weak]] void* __interceptor_malloc(size_t);
[[gnu::weak]] void* __interceptor_calloc(size_t, size_t);
[[gnu::weak]] void* __interceptor_realloc(void*, size_t);
[[gnu::weak]] void* __interceptor_aligned_alloc(size_t, size_t);

#define MEMORY(name, libc_name, parameters, ...)                    \
  void* name parameters {                                           \
    if (fails("memory", ENOMEM)) return nullptr;                    \
    return __interceptor_##name ? __interceptor_##name(__VA_ARGS__) \
                                : __libc_##libc_name(__VA_ARGS__);  \
  }
MEMORY(malloc, malloc, (size_t bytes), bytes)
MEMORY(calloc, calloc, (size_t n, size_t bytes), n, bytes)
MEMORY(realloc, realloc, (void* old, size_t bytes), old, bytes)
MEMORY(aligned_alloc, memalign, (size_t alignment, size_t bytes), alignment, bytes)

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = aligned_alloc(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

// The sanitizer's operator new does not call malloc(). The library's does.
static void* or_throw(void* memory) { return memory != nullptr ? memory : throw std::bad_alloc(); }
static size_t whole(std::align_val_t to, size_t bytes) {  // a multiple, as the sanitizer requires
  return (bytes + size_t(to) - 1) / size_t(to) * size_t(to);
}
void* operator new(size_t bytes) { return or_throw(malloc(bytes > 0 ? bytes : 1)); }
void* operator new[](size_t bytes) { return or_throw(malloc(bytes > 0 ? bytes : 1)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return malloc(bytes > 0 ? bytes : 1);
}
void* operator new(size_t bytes, std::align_val_t to) {
  return or_throw(aligned_alloc(size_t(to), whole(to, bytes)));
}
void* operator new(size_t bytes, std::align_val_t to, const std::nothrow_t&) noexcept {
  return aligned_alloc(size_t(to), whole(to, bytes));
}

FAILING("mapping", ENOMEM, MAP_FAILED, true, void*, mmap,
        (void* at, size_t n, int protection, int flags, int file, off_t offset), at, n, protection,
        flags, file, offset)
FAILING("mapping", ENOMEM, -1, true, int, memfd_create, (const char* name, unsigned flags), name,
        flags)
FAILING("mapping", ENOMEM, -1, true, int, fchmod, (int file, mode_t mode), file, mode)
FAILING("mapping", ENOSPC, -1, true, int, ftruncate, (int file, off_t size), file, size)
FAILING("mapping", ENOMEM, -1, true, int, madvise, (void* at, size_t n, int advice), at, n, advice)

// ---- files

FAILING("write", ENOSPC, -1, is_on_disk(file), ssize_t, write,
        (int file, const void* bytes, size_t n), file, bytes, n)
FAILING(is_socket(file) ? "net" : "write", is_socket(file) ? ECONNRESET : ENOSPC, -1, true, ssize_t,
        writev, (int file, const iovec* parts, int n), file, parts, n)
FAILING("write", EIO, -1, true, int, fsync, (int file), file)
FAILING("write", EIO, -1, true, int, rename, (const char* from, const char* to), from, to)
FAILING("write", ENOSPC, -1, true, int, mkdir, (const char* path, mode_t mode), path, mode)
FAILING("write", EIO, -1, true, int, unlink, (const char* path), path)
FAILING("write", EIO, -1, true, int, unlinkat, (int at, const char* path, int flags), at, path,
        flags)
FAILING("write", EIO, -1, true, int, remove, (const char* path), path)
FAILING("read", EIO, -1, true, ssize_t, pread, (int file, void* bytes, size_t n, off_t offset),
        file, bytes, n, offset)
FAILING("read", EIO, -1, is_on_disk(file), ssize_t, read, (int file, void* bytes, size_t n), file,
        bytes, n)
FAILING("read", EIO, -1, is_on_disk(file), ssize_t, readv, (int file, const iovec* parts, int n),
        file, parts, n)

static FILE* open_stream(const char* name, const char* path, const char* mode) {
  const bool reads = mode[0] == 'r' && std::strchr(mode, '+') == nullptr;
  if (open_fails(reads ? O_RDONLY : O_WRONLY)) return nullptr;
  return real(static_cast<FILE* (*)(const char*, const char*)>(nullptr), name)(path, mode);
}
extern "C" FILE* fopen(const char* path, const char* mode) {
  return open_stream("fopen", path, mode);
}
extern "C" FILE* fopen64(const char* path, const char* mode) {
  return open_stream("fopen64", path, mode);
}
static int open_file(const char* name, const char* path, int flags, unsigned mode) {
  if (open_fails(flags)) return -1;
  return real(static_cast<int (*)(const char*, int, ...)>(nullptr), name)(path, flags, mode);
}
#define OPENING(name)                                     \
  extern "C" int name(const char* path, int flags, ...) { \
    va_list more;                                         \
    va_start(more, flags);                                \
    const unsigned mode = va_arg(more, unsigned);         \
    va_end(more);                                         \
    return open_file(#name, path, flags, mode);           \
  }
OPENING(open)
OPENING(open64)

// ---- threads, processes, connections

using ThreadBody = void* (*)(void*);
FAILING("thread", EAGAIN, EAGAIN, true, int, pthread_create,
        (pthread_t * thread, const pthread_attr_t* how, ThreadBody body, void* argument), thread,
        how, body, argument)

extern "C" pid_t fork() {
  static const auto call = real(static_cast<pid_t (*)()>(nullptr), "fork");
  if (plan.forks == 0) plan.mine = kLauncher;
  if (fails("process", EAGAIN)) return -1;
  const pid_t child = call();
  if (child == 0) plan.mine = plan.forks;
  ++plan.forks;
  return child;
}

FAILING("net", EMFILE, -1, true, int, socket, (int family, int type, int protocol), family, type,
        protocol)
FAILING("net", ECONNREFUSED, -1, true, int, connect,
        (int s, const sockaddr* address, socklen_t size), s, address, size)
FAILING("net", EADDRINUSE, -1, true, int, bind, (int s, const sockaddr* address, socklen_t size), s,
        address, size)
FAILING("net", EADDRINUSE, -1, true, int, listen, (int s, int n), s, n)
FAILING("net", ECONNABORTED, -1, true, int, accept, (int s, sockaddr* address, socklen_t* size), s,
        address, size)
FAILING("net", ECONNRESET, -1, true, ssize_t, send, (int s, const void* bytes, size_t n, int flags),
        s, bytes, n, flags)
FAILING("net", ECONNRESET, -1, true, ssize_t, sendmsg, (int s, const msghdr* message, int flags), s,
        message, flags)
FAILING("net", ECONNRESET, -1, true, ssize_t, recv, (int s, void* bytes, size_t n, int flags), s,
        bytes, n, flags)

extern "C" int __libc_start_main(Main* main, int count, char** arguments, void (*begin)(),
                                 void (*end)(), void (*dynamic)(), void* stack) {
  real_main = main;
  using Start = int(Main*, int, char**, void (*)(), void (*)(), void (*)(), void*);
  return real(static_cast<Start*>(nullptr), "__libc_start_main")(counted_main, count, arguments,
                                                                 begin, end, dynamic, stack);
}
