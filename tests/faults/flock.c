/* Makes every lock succeed at once, as on a file system that knows none (some of NFS and Lustre).
 *
 * With FLOCK_ERRNO flock() answers that number for files below FLOCK_BELOW, and locks all others:
 * 38 (ENOSYS) is Lustre without -o flock, 37 (ENOLCK) is NFS without a lock daemon.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

int flock(int file, int operation) {
    const char *number = getenv("FLOCK_ERRNO"), *below = getenv("FLOCK_BELOW");
    if (number == NULL)
        return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    if (below != NULL && strncmp(path, below, strlen(below)) != 0)
        return (int)syscall(SYS_flock, file, operation);
    errno = atoi(number);
    return -1;
}

static int command(int file, int what, long argument) {
    int locks = what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || what == F_OFD_SETLKW;
    if (locks && getenv("FLOCK_ERRNO") == NULL)
        return 0;
    return (int)syscall(SYS_fcntl, file, what, argument);
}

int fcntl(int file, int what, ...) {
    va_list list;
    va_start(list, what);
    long argument = va_arg(list, long);
    va_end(list);
    return command(file, what, argument);
}

int fcntl64(int file, int what, ...) {
    va_list list;
    va_start(list, what);
    long argument = va_arg(list, long);
    va_end(list);
    return command(file, what, argument);
}
