package levelwind.coordinator;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import org.apache.kafka.common.Uuid;

/**
 * An owner for each partition, chosen by levelwind's daemon, which hands it to the coordinator in
 * rack ids: those of <em>carriers</em>, members of the group that read nothing.
 *
 * <p>A rack id is all that a member can tell an assignor freely. `levelwind-plan/1:7.12:0/2:8d3fa1c0:`
 * and text begin part 0 of 2 of the plan of planner epoch 7 and group epoch 12, whose bytes have
 * that CRC-32. The text is base64url of what zlib has compressed. Numbers in the bytes are LEB128:
 * members (their number; of each the length and UTF-8 of its group instance id, or of its member id
 * where it has none), then topics (their number; of each 16 bytes of id, number of partitions, and
 * for each 0 for nobody or n for the n-th member).
 */
record CarriedPlan(List<String> members, Map<Uuid, int[]> owners) {
    /** Begins the rack id of a carrier, whatever the version. */
    static final String MARK = "levelwind-plan/";
    /** Bytes of a plan, unpacked; some 500,000 partitions. A rack id of zeros might ask for more. */
    static final int MOST_BYTES = 4 << 20;

    private static final int MOST_PARTS = 64;
    /** Plans that are unpacked, newest first: what an answer may cost has a bound. */
    private static final int MOST_TRIED = 4;
    private static final Pattern PART = Pattern.compile(
            MARK + "1:(\\d{1,18})\\.(\\d{1,18}):(\\d{1,2})/(\\d{1,2}):([0-9a-f]{8}):([\\w-]*)");

    /** Which plan a part belongs to. */
    private record Key(long plannerEpoch, long groupEpoch, int parts, String checksum) {
        static final Comparator<Key> NEWEST_FIRST = Comparator.comparingLong(Key::plannerEpoch)
                .thenComparingLong(Key::groupEpoch).reversed()
                .thenComparingInt(Key::parts).thenComparing(Key::checksum);
    }

    static boolean isCarried(String rackId) {
        return rackId.startsWith(MARK);
    }

    /** The newest plan of which all parts are there and whole; null where there is none. */
    static CarriedPlan newest(Collection<String> rackIds) {
        Map<Key, String[]> plans = new TreeMap<>(Key.NEWEST_FIRST);
        for (String rackId : rackIds) {
            Matcher part = PART.matcher(rackId);
            if (part.matches()) {
                int number = Integer.parseInt(part.group(3));
                int parts = Integer.parseInt(part.group(4));
                if (number < parts && parts <= MOST_PARTS) {
                    Key key = new Key(Long.parseLong(part.group(1)), Long.parseLong(part.group(2)),
                            parts, part.group(5));
                    plans.computeIfAbsent(key, k -> new String[parts])[number] = part.group(6);
                }
            }
        }
        plans.values().removeIf(parts -> Arrays.asList(parts).contains(null));
        return plans.entrySet().stream().limit(MOST_TRIED)
                .map(plan -> read(String.join("", plan.getValue()), plan.getKey().checksum()))
                .filter(Objects::nonNull).findFirst().orElse(null);
    }

    /** The plan in a text; null where it is torn. */

    private static CarriedPlan read(String text, String checksum) {
        try {
            byte[] bytes = unpack(Base64.getUrlDecoder().decode(text));
            CRC32 sum = new CRC32();
            sum.update(bytes);
            if (!checksum.equals(String.format("%08x", sum.getValue()))) {
                return null;
            }
            return parse(ByteBuffer.wrap(bytes));
        } catch (RuntimeException | DataFormatException torn) {
            return null;
        }
    }

    private static byte[] unpack(byte[] packed) throws DataFormatException {
        Inflater inflater = new Inflater();
        try {
            inflater.setInput(packed);
            byte[] bytes = new byte[Math.min(Math.max(8 * packed.length, 64), MOST_BYTES)];
            int length = 0;
            while (!inflater.finished()) {
                int more = inflater.inflate(bytes, length, bytes.length - length);
                length += more;
                if (more == 0 && (length < bytes.length || length == MOST_BYTES)) {
                    throw new DataFormatException("cut off, too large, or with a dictionary");
                }
                if (length == bytes.length) {
                    bytes = Arrays.copyOf(bytes, Math.min(2 * length, MOST_BYTES));
                }
            }
            return Arrays.copyOf(bytes, length);
        } finally {
            inflater.end();
        }
    }

    private static CarriedPlan parse(ByteBuffer in) {
        List<String> members = new ArrayList<>();
        for (int left = number(in); left > 0; left--) {
            byte[] name = new byte[atMost(number(in), in.remaining())];
            in.get(name);
            members.add(new String(name, StandardCharsets.UTF_8));
        }
        Map<Uuid, int[]> owners = new HashMap<>();
        for (int left = number(in); left > 0; left--) {
            Uuid topic = new Uuid(in.getLong(), in.getLong());
            int[] owner = new int[atMost(number(in), in.remaining())];
            for (int p = 0; p < owner.length; p++) {
                owner[p] = atMost(number(in), members.size()) - 1;
            }
            owners.put(topic, owner);
        }
        if (in.hasRemaining()) {
            throw new IllegalArgumentException("bytes behind the plan");
        }
        return new CarriedPlan(members, owners);
    }

    /** A number from 0 to the most that an int holds. */
    private static int number(ByteBuffer in) {
        long number = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            byte next = in.get();
            number |= (long) (next & 0x7f) << shift;
            if (next >= 0) {
                return Math.toIntExact(number);
            }
        }
        throw new IllegalArgumentException("no number");
    }

    private static int atMost(int number, int most) {
        if (number > most) {
            throw new IllegalArgumentException(number + " where " + most + " are the most");
        }
        return number;
    }
}
