// SPDX-License-Identifier: Apache-2.0
// The handler writes a byte into a pipe and the sleeper polls that pipe, so no signal is lost between a test and the
// sleep after it. Handlers rather than a signal mask: a mask holds for one thread, and a library may have started
// others.
#include "sweep/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};

int depth = 0;
std::array<int, 2> ends = {-1, -1};  // of the pipe
std::array<struct sigaction, kSignals.size()> before;
std::atomic<int> count{0};

void note(int signal) {
  const int saved = errno;
  if (signal != SIGCHLD) count.fetch_add(1);
  const char byte = 0;
  if (::write(ends[1], &byte, 1) < 0) errno = saved;  // full: the sleeper wakes anyway
  errno = saved;
}

void open_pipe() {
  if (::pipe(ends.data()) != 0) throw Error("cannot watch signals: " + std::generic_category().message(errno));
  for (const int end : ends) {
    (void)::fcntl(end, F_SETFD, FD_CLOEXEC);
    (void)::fcntl(end, F_SETFL, O_NONBLOCK);
  }
}

}  // namespace

SignalWatch::SignalWatch() {
  if (depth == 0) {
    open_pipe();
    count = 0;
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;  // system calls of others go on; poll is interrupted regardless
    (void)::sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) (void)::sigaction(kSignals.at(i), &action, &before.at(i));
    if (before.at(2).sa_handler == SIG_IGN) (void)::sigaction(SIGHUP, &before.at(2), nullptr);  // nohup: not for us
  }
  ++depth;
}

SignalWatch::~SignalWatch() {
  if (--depth > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) (void)::sigaction(kSignals.at(i), &before.at(i), nullptr);
  for (int& end : ends) {
    (void)::close(end);
    end = -1;
  }
}

void SignalWatch::wait(double seconds) {
  struct pollfd reader = {.fd = ends[0], .events = POLLIN, .revents = 0};
  (void)::poll(&reader, 1, static_cast<int>(seconds * 1e3));
  std::array<char, 64> bytes{};
  while (::read(ends[0], bytes.data(), bytes.size()) > 0) {
  }
}

int SignalWatch::interruptions() const noexcept { return count.load(); }

}  // namespace spectralclip::lab
