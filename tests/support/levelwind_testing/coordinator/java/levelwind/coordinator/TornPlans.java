package levelwind.coordinator;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Random;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import org.apache.kafka.common.Uuid;

/** Rack ids of carriers: whole plans, and damaged in their bytes, their text or their heads. */
final class TornPlans {
    private TornPlans() {}

    static List<String> rackIds(Random draw) {
        List<String> found = new ArrayList<>();
        for (int plans = draw.nextInt(3); plans > 0; plans--) {
            byte[] plan = plan(draw);
            if (draw.nextInt(3) == 0 && plan.length > 0) { // its checksum is right
                damage(plan, draw);
            }
            String text = packed(plan);
            CRC32 sum = new CRC32();
            sum.update(plan);
            int parts = draw.nextInt(4) == 0 ? 1 + draw.nextInt(4) : 1;
            for (int part = 0; part < parts; part++) {
                String body = text.substring(text.length() * part / parts,
                        text.length() * (part + 1) / parts);
                String rackId = String.format("levelwind-plan/1:%d.%d:%d/%d:%08x:%s",
                        draw.nextInt(3), draw.nextInt(3), part, parts, sum.getValue(), body);
                if (draw.nextInt(4) == 0) {
                    byte[] bytes = rackId.getBytes(StandardCharsets.ISO_8859_1);
                    damage(bytes, draw);
                    rackId = "levelwind-plan/" + new String(bytes, StandardCharsets.ISO_8859_1)
                            .substring(Math.min(15, bytes.length));
                }
                found.add(rackId.substring(0, draw.nextInt(9) == 0
                        ? 15 + draw.nextInt(rackId.length() - 14) : rackId.length()));
            }
        }
        return found;
    }

    private static void damage(byte[] bytes, Random draw) {
        for (int times = 1 + draw.nextInt(3); times > 0; times--) {
            bytes[draw.nextInt(bytes.length)] = (byte) draw.nextInt();
        }
    }

    private static byte[] plan(Random draw) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        int members = draw.nextInt(6);
        out.write(members);
        for (int m = 0; m < members; m++) {
            String name = (draw.nextInt(4) == 0 ? "i" : "m") + draw.nextInt(20);
            out.write(name.length());
            out.writeBytes(name.getBytes(StandardCharsets.UTF_8));
        }
        int topics = draw.nextInt(6);
        out.write(topics);
        for (int t = 0; t < topics; t++) {
            Uuid id = AssignorServer.Stated.id(draw.nextInt(7));
            out.writeBytes(ByteBuffer.allocate(16).putLong(id.getMostSignificantBits())
                    .putLong(id.getLeastSignificantBits()).array());
            int size = draw.nextInt(9);
            out.write(size);
            for (int p = 0; p < size; p++) {
                out.write(draw.nextInt(members + 1));
            }
        }
        return out.toByteArray();
    }

    private static String packed(byte[] plan) {
        Deflater deflater = new Deflater();
        deflater.setInput(plan);
        deflater.finish();
        byte[] bytes = new byte[plan.length + 100];
        int length = deflater.deflate(bytes);
        deflater.end();
        byte[] whole = new byte[length];
        System.arraycopy(bytes, 0, whole, 0, length);
        return Base64.getUrlEncoder().withoutPadding().encodeToString(whole);
    }
}
