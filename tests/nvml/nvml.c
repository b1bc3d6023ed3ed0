/* NVIDIA's management library as a machine with GPUs would answer it: a stand-in for tests.

   The file named by NVML_STAND_IN is read at every call, so a GPU can be lost in between. It has a
   line `name=value` for each answer, such as `gpu0.power=250000`, in NVML's own units. An answer
   that is absent is NVML_ERROR_NOT_SUPPORTED; without the file no driver is loaded. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u64 total, free, used; } memory_t;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2_t;
typedef struct { u32 gpu, memory; } utilization_t;
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process_t;

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, NOT_LOADED = 9 };

/* A handle is the number of its GPU and slice; slices begin at 1. */
#define GPU(handle) ((uintptr_t)(handle) / 100 - 1)
#define SLICE(handle) ((uintptr_t)(handle) % 100)
#define HANDLE(gpu, slice) ((void *)(uintptr_t)(((gpu) + 1) * 100 + (slice)))

static int look_up(const char *name, char *value, size_t size) {
    const char *path = getenv("NVML_STAND_IN");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[4096];
    size_t length = strlen(name);
    int found = 0;
    if (!file) return 0;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, name, length) && line[length] == '=') {
            snprintf(value, size, "%s", line + length + 1);
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static int number(const char *name, u64 *value) {
    char text[64];
    if (!look_up(name, text, sizeof text)) return NOT_SUPPORTED;
    *value = strtoull(text, NULL, 0);
    return SUCCESS;
}

static void full_name(char *name, size_t size, void *handle, const char *what) {
    if (SLICE(handle)) snprintf(name, size, "gpu%zu.slice%zu.%s", (size_t)GPU(handle),
                                (size_t)SLICE(handle), what);
    else snprintf(name, size, "gpu%zu.%s", (size_t)GPU(handle), what);
}

static int of_gpu(void *handle, const char *what, u64 *value) {
    char name[128];
    u64 error;
    snprintf(name, sizeof name, "gpu%zu.hangs", (size_t)GPU(handle));
    if (number(name, &error) == SUCCESS) nanosleep(&(struct timespec){.tv_sec = (time_t)error}, NULL);
    snprintf(name, sizeof name, "gpu%zu.error", (size_t)GPU(handle));
    if (number(name, &error) == SUCCESS) return (int)error;
    full_name(name, sizeof name, handle, what);
    return number(name, value);
}

static int small(void *handle, const char *what, u32 *value) {
    u64 found;
    int result = of_gpu(handle, what, &found);
    if (result == SUCCESS) *value = (u32)found;
    return result;
}

static int text_of(void *handle, const char *what, char *value, u32 size) {
    char name[128];
    full_name(name, sizeof name, handle, what);
    return look_up(name, value, size) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlInitWithFlags(u32 flags) {
    char text[64];
    (void)flags;
    if (!look_up("driver", text, sizeof text)) return NOT_LOADED;
    return look_up("init", text, sizeof text) ? atoi(text) : SUCCESS;
}

int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *value, u32 size) {
    return look_up("driver", value, size) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlSystemGetCudaDriverVersion_v2(int *value) {
    u64 found;
    int result = number("cuda", &found);
    if (result == SUCCESS) *value = (int)found;
    return result;
}

int nvmlDeviceGetCount_v2(u32 *value) {
    u64 found;
    int result = number("gpus", &found);
    *value = result == SUCCESS ? (u32)found : 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, void **handle) {
    u64 unused;
    int result;
    *handle = HANDLE(index, 0);
    result = of_gpu(*handle, "no-such-value", &unused);
    return result == NOT_SUPPORTED ? SUCCESS : result;
}

int nvmlDeviceGetName(void *h, char *v, u32 n) { return text_of(h, "name", v, n); }
int nvmlDeviceGetUUID(void *h, char *v, u32 n) { return text_of(h, "uuid", v, n); }

#define SMALL(function, what) \
    int function(void *handle, u32 *value) { return small(handle, what, value); }
SMALL(nvmlDeviceGetPowerUsage, "power")
SMALL(nvmlDeviceGetEnforcedPowerLimit, "power-limit")
SMALL(nvmlDeviceGetPowerManagementDefaultLimit, "power-limit-default")
SMALL(nvmlDeviceGetPersistenceMode, "persistence")
SMALL(nvmlDeviceGetCurrPcieLinkGeneration, "pcie-generation")
SMALL(nvmlDeviceGetMaxPcieLinkGeneration, "pcie-generation-max")
SMALL(nvmlDeviceGetCurrPcieLinkWidth, "pcie-width")
SMALL(nvmlDeviceGetMaxPcieLinkWidth, "pcie-width-max")
SMALL(nvmlDeviceGetMaxMigDeviceCount, "slices")

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *value) {
    int result = of_gpu(handle, "memory", &value->total);
    if (result == SUCCESS) result = of_gpu(handle, "memory-used", &value->used);
    value->free = value->total - value->used;
    return result;
}

/* Since driver 510 the driver's own memory stands apart. */
int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2_t *value) {
    memory_t whole;
    int result = of_gpu(handle, "memory-reserved", &value->reserved);
    if (result == SUCCESS) result = nvmlDeviceGetMemoryInfo(handle, &whole);
    if (result != SUCCESS) return result;
    value->total = whole.total;
    value->used = whole.used;
    value->free = whole.free - value->reserved;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, utilization_t *value) {
    value->memory = 0;
    return small(handle, "utilisation", &value->gpu);
}

int nvmlDeviceGetClockInfo(void *handle, int type, u32 *value) {
    return small(handle, type == 1 ? "sm-clock" : "memory-clock", value);
}

int nvmlDeviceGetMaxClockInfo(void *handle, int type, u32 *value) {
    return small(handle, type == 1 ? "sm-clock-max" : "memory-clock-max", value);
}

int nvmlDeviceGetCurrentClocksEventReasons(void *handle, u64 *value) {
    return of_gpu(handle, "clock-reasons", value);
}

int nvmlDeviceGetTemperature(void *handle, int sensor, u32 *value) {
    (void)sensor;
    return small(handle, "temperature", value);
}

int nvmlDeviceGetTemperatureThreshold(void *handle, int threshold, u32 *value) {
    (void)threshold;
    return small(handle, "slowdown-temperature", value);
}

int nvmlDeviceGetEccMode(void *handle, u32 *now, u32 *next) {
    int result = small(handle, "ecc", now);
    *next = *now;
    return result;
}

int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, u64 *value) {
    (void)kind, (void)counter;
    return of_gpu(handle, "ecc-uncorrected", value);
}

int nvmlDeviceGetMigMode(void *handle, u32 *now, u32 *next) {
    int result = small(handle, "mig", now);
    *next = *now;
    return result;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, u32 index, void **slice) {
    char name[64], text[64];
    *slice = HANDLE(GPU(handle), index + 1);
    snprintf(name, sizeof name, "gpu%zu.slice%u.uuid", (size_t)GPU(handle), index + 1);
    return look_up(name, text, sizeof text) ? SUCCESS : NOT_FOUND;
}

/* `gpu0.processes=PID:BYTES,PID:BYTES` */
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, u32 *count, process_t *found) {
    char name[64], text[1024];
    u32 room = *count;
    u64 unused;
    int result = of_gpu(handle, "no-such-value", &unused);
    if (result != NOT_SUPPORTED) return result;
    full_name(name, sizeof name, handle, "processes");
    *count = 0;
    if (!look_up(name, text, sizeof text)) return NOT_SUPPORTED;
    for (char *one = strtok(text, ","); one; one = strtok(NULL, ",")) {
        if (found && *count < room) {
            char *bytes = strchr(one, ':');
            found[*count] = (process_t){.pid = (u32)atoi(one), .memory = strtoull(bytes + 1, NULL, 0)};
        }
        *count += 1;
    }
    return found || !*count ? SUCCESS : INSUFFICIENT_SIZE;
}

/* The counter of a board that has always taken `energy-rate` mW: by it a time is an energy. */
int nvmlDeviceGetTotalEnergyConsumption(void *handle, u64 *value) {
    struct timespec now;
    u64 rate_mw = 0;
    int result = of_gpu(handle, "energy-rate", &rate_mw);
    clock_gettime(CLOCK_MONOTONIC, &now);
    *value = (u64)((now.tv_sec + now.tv_nsec / 1e9) * (double)rate_mw);
    return result;
}
