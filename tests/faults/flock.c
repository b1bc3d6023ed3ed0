/* Makes every lock succeed at once, as on a file system that knows none (some of NFS and Lustre). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

int flock(int file, int operation) {
    (void)file;
    (void)operation;
    return 0;
}

static int command(int file, int what, long argument) {
    if (what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || what == F_OFD_SETLKW)
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
