#include "process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "sockets.hpp"

namespace idproxy::bench {
namespace {

constexpr std::chrono::seconds kTimeToEnd{5};
constexpr int kExecFailed = 127;

/// Between fork and exec: only what is safe there.
void become(const std::vector<char*>& command, int log) {
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);  // what is ignored stays so
  ::execv(command.front(), command.data());
  ::_exit(kExecFailed);
}

/// fork(), with the child killed when this process ends.
pid_t fork_bound() {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExecFailed);
  return pid;
}

std::string proc_path(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

void pin_thread(pid_t tid, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  if (::sched_setaffinity(tid, sizeof set, &set) < 0) throw_errno("sched_setaffinity");
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  for (const auto& task : std::filesystem::directory_iterator(proc_path(pid, "task"))) {
    threads.push_back(std::stoi(task.path().filename()));
  }
  return threads;
}

}  // namespace

Cores choose_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) < 0) throw_errno("sched_getaffinity");
  std::vector<int> allowed;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) allowed.push_back(core);
  }
  return {allowed.front(), allowed.size() > 1 ? allowed[1] : allowed.front()};
}

void pin_process(pid_t pid, const std::vector<int>& cores) {
  for (const pid_t thread : threads_of(pid == 0 ? ::getpid() : pid)) pin_thread(thread, cores);
}

Child Child::run(std::vector<std::string> command, int core, const std::string& log) {
  const Fd output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (output.get() < 0) throw_errno("open");
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t pid = fork_bound();
  if (pid > 0) return Child(pid);
  pin_thread(0, {core});
  become(words, output.get());
  std::abort();  // become() does not return
}

Child Child::fork_into(const std::function<void()>& body) {
  const pid_t pid = fork_bound();
  if (pid > 0) return Child(pid);
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "in a copy of this process: %s\n", error.what());
  }
  ::_exit(kExecFailed);
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Child::~Child() {
  if (pid_ < 0 || !alive()) return;
  ::kill(pid_, SIGTERM);
  if (ended_within(kTimeToEnd)) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Child::alive() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
  return pid_ > 0;
}

bool Child::ended_within(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (alive() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return pid_ < 0;
}

std::chrono::nanoseconds Child::cpu_time() const {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &used) < 0) {
    throw std::runtime_error("a process under test has ended");
  }
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

Memory Child::memory() const {
  std::ifstream rollup(proc_path(pid_, "smaps_rollup"));
  Memory memory{};
  for (std::string word; rollup >> word;) {
    if (word == "Rss:") rollup >> memory.resident_kib;
    if (word == "Anonymous:") rollup >> memory.anonymous_kib;
  }
  if (memory.resident_kib == 0) throw std::runtime_error("smaps_rollup cannot be read");
  return memory;
}

std::vector<pid_t> Child::threads() const {
  return threads_of(pid_);
}

}  // namespace idproxy::bench
