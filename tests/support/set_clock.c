/* Preloaded, sets a process's wall clock: ahead by the seconds that $SET_CLOCK_FILE has, read each
   time. libfaketime needs shm_open, which the proxy has taken from libmongoc
   (src/id_store/library.cpp). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec* time) {
  const int result = (int)syscall(SYS_clock_gettime, id, time);
  const char* path = getenv("SET_CLOCK_FILE");
  if (id != CLOCK_REALTIME || !path) return result;
  char text[32] = {0};
  const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file >= 0 && syscall(SYS_read, file, text, sizeof text - 1) > 0) {
    time->tv_sec += strtol(text, NULL, 10);
  }
  if (file >= 0) syscall(SYS_close, file);
  return result;
}
