/* Ranks pass numbers around a ring, then add up vectors; every element of every result is checked. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Lengths in elements: eager, fragmented, and by rendezvous. */
static const int lengths[] = {1, 100, 5000, 200000};
enum { LONGEST = 200000, LAPS = 20 };

static int64_t element(int rank, int lap, int index) {
    return (int64_t)(rank + 1) * 1000003 + (int64_t)lap * 7919 + index;
}

static void demand(int good, const char *what, int rank, int lap, int index) {
    if (!good) {
        fprintf(stderr, "rank %d: %s: lap %d, element %d\n", rank, what, lap, index);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* What a rank has goes to the next one; after as many laps as ranks it has its own again. */
static void ring(int rank, int ranks, int length, int64_t *mine, int64_t *other) {
    for (int lap = 0; lap < LAPS; lap++) {
        for (int i = 0; i < length; i++) mine[i] = element(rank, lap, i);
        for (int step = 1; step <= ranks; step++) {
            MPI_Sendrecv(mine, length, MPI_INT64_T, (rank + 1) % ranks, lap, other, length, MPI_INT64_T,
                         (rank + ranks - 1) % ranks, lap, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            int from = (rank + ranks - step % ranks) % ranks;
            for (int i = 0; i < length; i++)
                demand(other[i] == element(from, lap, i), "ring", rank, lap, i);
            int64_t *swap = mine;
            mine = other;
            other = swap;
        }
    }
}

static void sums(int rank, int ranks, int length, int64_t *mine, int64_t *sum) {
    for (int lap = 0; lap < LAPS; lap++) {
        for (int i = 0; i < length; i++) mine[i] = element(rank, lap, i);
        MPI_Allreduce(mine, sum, length, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < length; i++) {
            int64_t right = 0;
            for (int r = 0; r < ranks; r++) right += element(r, lap, i);
            demand(sum[i] == right, "sum", rank, lap, i);
        }
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int64_t *a = malloc(LONGEST * sizeof *a), *b = malloc(LONGEST * sizeof *b);
    demand(a && b, "memory", rank, 0, 0);
    for (unsigned k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        ring(rank, ranks, lengths[k], a, b);
        sums(rank, ranks, lengths[k], a, b);
    }
    free(a);
    free(b);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("%d ranks agree\n", ranks);
    MPI_Finalize();
    return 0;
}
