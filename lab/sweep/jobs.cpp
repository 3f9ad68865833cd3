// SPDX-License-Identifier: Apache-2.0
#include "sweep/jobs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <system_error>

#include "spectralclip/error.h"
#include "sweep/signals.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): unistd.h has it only with GNU extensions

namespace spectralclip::lab {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kTick = 1.0;          // seconds; also how late a child's end is seen should SIGCHLD be blocked
constexpr double kGrace = 10.0;        // for children to end after SIGTERM when an exception is on its way
constexpr int kPatientInterrupts = 2;  // the next one kills

std::string reason(int error) { return std::generic_category().message(error); }

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What posix_spawn wants beside the command: stdin from nowhere, both outputs to the log, a group of its own, signals
// as a fresh process has them.
class SpawnSetup {
 public:
  explicit SpawnSetup(int log) {
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
    (void)posix_spawnattr_init(&attributes);
    sigset_t set;
    (void)::sigemptyset(&set);
    (void)posix_spawnattr_setsigmask(&attributes, &set);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGPIPE}) (void)::sigaddset(&set, signal);
    (void)posix_spawnattr_setsigdefault(&attributes, &set);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSetup() {
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

pid_t spawn(const Job& job) {
  if (job.command.empty()) throw InvalidArgument("cannot start a job: the command is empty");
  const std::string& log_file = job.log_file.empty() ? "/dev/null" : job.log_file;
  const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) throw InvalidArgument(fmt::format("cannot open the log {}: {}", log_file, reason(errno)));
  const SpawnSetup setup(log);
  std::vector<char*> arguments;
  for (const std::string& word : job.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, arguments[0], &setup.actions, &setup.attributes, arguments.data(), environ);
  (void)::close(log);
  if (error != 0) throw InvalidArgument(fmt::format("cannot start {}: {}", job.command.front(), reason(error)));
  return pid;
}

struct Child {
  pid_t pid;
  std::size_t index;
  Clock::time_point start;
};

class Children {
 public:
  Children() = default;
  ~Children() { end_all(); }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  [[nodiscard]] std::size_t size() const { return children_.size(); }
  void start(const Job& job) {
    children_.push_back({spawn(job), started_, Clock::now()});
    ++started_;
  }
  // To the whole group: a script's own children too.
  void send(int signal) const {
    for (const Child& child : children_) (void)::kill(-child.pid, signal);
  }
  // Those that ended. They are no longer ours when the callers hear of them: a callback may throw.
  [[nodiscard]] std::vector<JobEnd> reap() {
    std::vector<JobEnd> ends;
    for (std::size_t i = 0; i < children_.size();) {
      int status = 0;
      if (::waitpid(children_[i].pid, &status, WNOHANG) != children_[i].pid) {
        ++i;
        continue;
      }
      ends.push_back({.index = children_[i].index,
                      .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                      .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                      .seconds = seconds_since(children_[i].start)});
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return ends;
  }

 private:
  void end_all() {
    if (children_.empty()) return;
    const Clock::time_point start = Clock::now();
    send(SIGTERM);
    for (SignalWatch signals; !children_.empty(); (void)reap()) {
      signals.wait(kTick);
      if (seconds_since(start) > kGrace) send(SIGKILL);
    }
  }

  std::vector<Child> children_;
  std::size_t started_ = 0;
};

}  // namespace

JobsOutcome run_jobs(const std::function<std::optional<Job>()>& next, const JobsOptions& options,
                     const std::function<void(const JobEnd&)>& on_done) {
  if (options.max_parallel < 1)
    throw InvalidArgument(fmt::format("{} jobs at once; allowed: 1 or more", options.max_parallel));
  SignalWatch signals;
  Children children;
  bool more = true;
  int passed_on = 0;
  for (;;) {
    const int interruptions = signals.interruptions();
    for (; passed_on < interruptions; ++passed_on) children.send(passed_on < kPatientInterrupts ? SIGTERM : SIGKILL);
    while (more && interruptions == 0 && children.size() < static_cast<std::size_t>(options.max_parallel)) {
      const std::optional<Job> job = next();
      if (job) children.start(*job);
      more = job.has_value();
    }
    if (children.size() == 0) return interruptions > 0 ? JobsOutcome::interrupted : JobsOutcome::finished;
    signals.wait(kTick);
    for (JobEnd& end : children.reap()) {
      end.interrupted = signals.interruptions() > 0;
      more = true;
      on_done(end);
    }
    if (options.on_tick) options.on_tick();
  }
}

JobsOutcome run_jobs(const std::vector<Job>& jobs, const JobsOptions& options,
                     const std::function<void(const JobEnd&)>& on_done) {
  std::size_t index = 0;
  const auto next = [&]() -> std::optional<Job> {
    if (index == jobs.size()) return std::nullopt;
    return jobs[index++];
  };
  return run_jobs(next, options, on_done);
}

std::string last_line(const std::string& path) {
  constexpr std::streamoff kTail = 4096;
  constexpr std::size_t kLongest = 500;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  file.seekg(std::max<std::streamoff>(0, static_cast<std::streamoff>(file.tellg()) - kTail));
  std::string line;
  std::string last;
  while (std::getline(file, line))
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  return last.substr(0, kLongest);
}

}  // namespace spectralclip::lab
