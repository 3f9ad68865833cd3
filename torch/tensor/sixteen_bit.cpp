// SPDX-License-Identifier: Apache-2.0
// See sixteen_bit.h. A child after fork() has one thread, so it must not enter torch's pool: it asks for one thread,
// and a lock that another thread held at the fork shows as silence, which the parent ends.
#include "spectralclip/torch/sixteen_bit.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "require.h"

namespace spectralclip::torch {
namespace {

struct Signal {
  int number;
  const char* name;
};
constexpr Signal kSignals[] = {{SIGILL, "SIGILL"}, {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},
                               {SIGFPE, "SIGFPE"}, {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"}};

std::string signal_name(int number) {
  for (const Signal& known : kSignals) {
    if (known.number == number) return known.name;
  }
  return "signal " + std::to_string(number);
}

[[noreturn]] void be_the_child(const std::function<void()>& work, int answer) {
  for (const Signal& known : kSignals) ::signal(known.number, SIG_DFL);  // not the host's handlers
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (const int null = ::open("/dev/null", O_WRONLY); null >= 0) ::dup2(null, STDERR_FILENO);
  std::string said;
  try {
    at::set_num_threads(1);
    work();
  } catch (const std::exception& error) {
    said = error.what();
    said = said.substr(0, said.find('\n'));
    if (said.empty()) said = "an exception without a text";
  }
  said.resize(std::min<std::size_t>(said.size(), 400));
  const bool written = ::write(answer, said.data(), said.size()) == static_cast<ssize_t>(said.size());
  ::_exit(written ? 0 : 1);
}

// Reads until the child closes its end; false when it does not in time.
bool read_answer(int answer, std::chrono::milliseconds patience, std::string& said) {
  const auto end = std::chrono::steady_clock::now() + patience;
  char buffer[512];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{answer, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = ::read(answer, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    said.append(buffer, static_cast<std::size_t>(count));
  }
}

// Small whole numbers: the products are exact in either type, so anything else is wrong.
void multiply(at::ScalarType type, std::int64_t m, std::int64_t n) {
  const at::Tensor A = (at::arange(m * n, at::kFloat).reshape({m, n}).fmod(3) - 1);
  const at::Tensor product = at::mm(A.to(type), A.t().to(type)).to(at::kFloat);
  if (!at::equal(product, at::mm(A, A.t()))) throw std::runtime_error("a wrong product");
}

std::string try_products() {
  struct Kind {
    at::ScalarType type;
    const char* name;
  };
  for (const auto& [type, name] : {Kind{at::kBFloat16, "bfloat16"}, Kind{at::kHalf, "float16"}}) {
    const std::string failure = failure_in_child([type] {
      multiply(type, 64, 64);
      multiply(type, 20, 30);
    });
    if (!failure.empty()) return std::string(name) + ": " + failure;
  }
  return {};
}

std::string ask() {
  const char* const wish = std::getenv("SPECTRALCLIP_SIXTEEN_BIT");
  if (wish == nullptr || *wish == '\0') return try_products();
  const std::string text = wish;
  SPECTRALCLIP_REQUIRE(text == "on" || text == "off", "SPECTRALCLIP_SIXTEEN_BIT is \"", text, "\", expected on or off");
  return text == "on" ? "" : "SPECTRALCLIP_SIXTEEN_BIT is off";
}

}  // namespace

std::string failure_in_child(const std::function<void()>& work, std::chrono::milliseconds patience) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::string("no pipe: ") + std::strerror(errno);
  const pid_t child = ::fork();
  if (child == 0) be_the_child(work, ends[1]);
  ::close(ends[1]);
  std::string said = child < 0 ? std::string("no child process: ") + std::strerror(errno) : "";
  if (child > 0) {
    const bool answered = read_answer(ends[0], patience, said);
    if (!answered) ::kill(child, SIGKILL);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!answered) {
      said = "no answer in " + std::to_string(patience.count()) + " ms";
    } else if (WIFSIGNALED(status)) {
      said = signal_name(WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0 && said.empty()) {
      said = "exit code " + std::to_string(WEXITSTATUS(status));
    }
  }
  ::close(ends[0]);
  return said;
}

const std::string& sixteen_bit_failure() {
  static const std::string failure = ask();
  return failure;
}

}  // namespace spectralclip::torch
