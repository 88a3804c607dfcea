package levelwind.coordinator;

/**
 * What an answer may cost. An assignor runs in the coordinator's own thread, in which no group of
 * that coordinator gets an answer meanwhile: past this bound a plan stays as good as it is by then.
 */
final class Work {
    private long left;

    Work(long steps) {
        left = steps;
    }

    /** Take steps; return whether there were any left before. */
    boolean spend(long steps) {
        boolean some = left > 0;
        left -= steps;
        return some;
    }
}
