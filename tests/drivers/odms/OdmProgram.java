package orders;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.bson.Document;

interface Odm {
  /** Makes its indexes. */
  void init();

  /** Stores new documents, in each of its ways. */
  void first();

  /** Changes the same objects and stores them again. */
  void second();
}

/** One step for each line of the standard input, with Spring Data and Morphia: see ../test_odms.py. */
class OdmProgram {
  private static void run(List<Odm> odms, String step) {
    for (Odm odm : odms) {
      switch (step) {
        case "init" -> odm.init();
        case "first" -> odm.first();
        case "second" -> odm.second();
        default -> throw new IllegalArgumentException("no such step");
      }
    }
  }

  public static void main(String[] arguments) throws IOException {
    PrintStream results = System.out;
    System.setOut(System.err); // for logs
    String uri = Document.parse(arguments[0]).getString("uri");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    Map<String, List<Odm>> odms = new HashMap<>();
    try (MongoClient client = MongoClients.create(uri)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        Document step = Document.parse(line);
        Document result = new Document();
        try {
          run(
              odms.computeIfAbsent(
                  step.getString("db"), db -> List.of(new Spring(uri, db), new MorphiaOrders(client, db))),
              step.getString("step"));
        } catch (RuntimeException error) {
          error.printStackTrace();
          result.append("error", error.toString()).append("codes", List.of());
        }
        results.println(result.toJson());
      }
    }
    System.exit(0); // contexts of Spring have clients of their own
  }
}
