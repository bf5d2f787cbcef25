// Loads the URLs of its input with HttpURLConnection, and says what came.
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.URI;
import java.security.MessageDigest;
import java.util.HexFormat;

class Client {
    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            out.append(c < 32 || c > 126 || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return out.append('"').toString();
    }

    static String load(String url) {
        try {
            HttpURLConnection connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
            connection.setConnectTimeout(5000);
            connection.setReadTimeout(5000);
            int status = connection.getResponseCode();
            InputStream stream = status >= 400 ? connection.getErrorStream() : connection.getInputStream();
            byte[] body = stream == null ? new byte[0] : stream.readAllBytes();
            StringBuilder fields = new StringBuilder();
            for (String name : new String[] {"proxy-status", "content-encoding", "content-type", "etag", "x-a"}) {
                String value = connection.getHeaderField(name);
                if (value != null) {
                    fields.append(fields.isEmpty() ? "" : ", ").append(quoted(name)).append(": ").append(quoted(value));
                }
            }
            String sum = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body));
            return String.format("{\"outcome\": \"whole\", \"status\": %d, \"fields\": {%s}, \"length\": %d, \"body\": \"%s\"}",
                status, fields, body.length, sum);
        } catch (Exception error) {
            return "{\"outcome\": \"failed\", \"error\": " + quoted(error.toString()) + "}";
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(load(line));
        }
    }
}
