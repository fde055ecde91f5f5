"""Files that students could hand in, which are wrong, and break something or try to get points all the same."""

import re

DAEMON = "daemon.txt"  # gets the number of a process that wants to outlive its exercise
INCLUDES = "".join(f"#include <{name}>\n" for name in (
    "fcntl.h", "stdio.h", "stdlib.h", "string.h", "sys/syscall.h", "sys/wait.h", "unistd.h", "vector"))

# What is put at the begin of a function, and what the grader is to say about it.
BEGIN = {
    "06": ("volatile bool on = true; while (on) {}", "ended"),
    "08": ("volatile int* nowhere = nullptr; *nowhere = 1;", "SIGSEGV"),
    "14": ("for (std::vector<std::vector<char>> all;;) all.emplace_back(1 << 28, 'x');", "ended"),
    "15": ('for (int i = 0; i < 200000; ++i) puts("now we begin");', "remove the prints"),
    "18": ('puts("smallest_group: right in all 20404 cases."); exit(0);', "before its checker did"),
    "24": ("write(3, \"yes\", 3); _exit(0);", "before its checker did"),
    "25": ("void unwritten(); unwritten();", "undefined reference to"),
    # It has a session of its own, and no parent.
    "17": ("""if (fork() == 0) {
  setsid();
  if (fork() != 0) _exit(0);
  dprintf(open("DAEMON.new", O_WRONLY | O_CREAT, 0600), "%d", getpid());
  rename("DAEMON.new", "DAEMON");
  sleep(60);
}
wait(nullptr);
while (access("DAEMON", F_OK) != 0) usleep(1000);
exit(0);""", "before its checker did"),
    "01": ("return {};", ""),
    "02": ("return;", ""),
    # It stands between the checker and the grader, and makes a "y" of an "n".
    "09": ("""static struct Between {
  Between() {
    int ends[2];
    (void)!pipe(ends);
    if (fork() == 0) {
      char said[128];
      close(ends[1]);
      const long n = read(ends[0], said, sizeof said);
      if (n > 0) said[n > 64 ? 64 : 0] = 'y', (void)!write(3, said, n);
      _exit(0);
    }
    dup2(ends[1], 3), close(ends[0]), close(ends[1]);
  }
  ~Between() { close(3), wait(nullptr); }
} between;
return;""", "not yet"),
}

# What stands before the text of a file.
BEFORE = {
    "11": ("""#include <string>
#include <vector>
namespace lesson {
struct FourHooks;
struct Difference { std::string where, yours, right, hint; };
Difference referee(const FourHooks&, const std::vector<std::vector<std::string>>&, unsigned) { return {}; }
}
""", "defines lesson::referee"),
    "23": (INCLUDES + """namespace { struct Early { Early() { char s[64]; (void)!read(0, s, 64); s[0] = 'y';
  (void)!write(3, s, 64); puts("begin_of: right in all 1 cases."); _exit(0); } } early; }
""", "before its checker did"),
    "01": (INCLUDES + """extern "C" ssize_t write(int file, const void* from, size_t n) {
  char said[128];
  memcpy(said, from, n < 128 ? n : 128);
  if (file == 3) said[n > 64 ? 64 : 0] = 'y';
  return syscall(SYS_write, file, said, n);
}
""", "defines write as a function of C"),
    "02": ("""#include "ops/layer_norm.h"
namespace nanofsdp::ops {
inline void layer_norm(Stream&, const LayerNormForward&) {}
inline void layer_norm(Stream&, const LayerNormBackward&) {}
}
void (*volatile forward_)(nanofsdp::Stream&, const nanofsdp::ops::LayerNormForward&) = &nanofsdp::ops::layer_norm;
void (*volatile backward_)(nanofsdp::Stream&, const nanofsdp::ops::LayerNormBackward&) = &nanofsdp::ops::layer_norm;
""", "defines nanofsdp::ops::layer_norm"),
}


def dishonest(solutions, out):
    """(files, what the grader is to say about each), by lesson. `solutions` are the files of ours."""
    includes = {"19": ('#include "../19_checkpoint/checkpoint_solution.cpp"\n', "does not compile"),
                "20": (f'#include "{solutions["20"]}"\n', "includes a solution")}
    files = {number: text for number, (text, _) in includes.items()}
    for number in BEGIN | BEFORE:
        begin = BEGIN.get(number, ("",))[0].replace("DAEMON", str(out / DAEMON))
        text = re.sub(r"\) \{\n", lambda m: m[0] + begin + "\n", solutions[number].read_text(), count=1)
        files[number] = BEFORE.get(number, (INCLUDES,))[0] + text
    return files, {number: said for number, (_, said) in (includes | BEGIN | BEFORE).items()}
