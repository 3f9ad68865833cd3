// SPDX-License-Identifier: Apache-2.0
#include "engine/stop_signal.h"

#include <csignal>

namespace spectralclip::lab {
namespace {

volatile std::sig_atomic_t requested = 0;

extern "C" void note_stop(int signal) {
  requested = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_stop_signals() {
  std::signal(SIGINT, note_stop);
  std::signal(SIGTERM, note_stop);
  if (std::signal(SIGHUP, note_stop) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup: not for us
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is a failed write with a reason, not a death
}

bool stop_requested() noexcept { return requested != 0; }

}  // namespace spectralclip::lab
