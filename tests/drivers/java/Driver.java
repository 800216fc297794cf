import com.mongodb.MongoBulkWriteException;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoException;
import com.mongodb.MongoSocketException;
import com.mongodb.MongoTimeoutException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.InsertManyOptions;
import com.mongodb.client.model.Updates;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.bson.Document;
import org.bson.RawBsonDocument;
import org.bson.codecs.DocumentCodec;

/**
 * Does tasks with the Java driver, one after the other; prints what came of each as a line of JSON.
 *
 * <p>java Driver '{"task": "insert" | "ordinary" | "batches" | "transactions" | "zeros" | "steps", ...}' ...
 */
class Driver {
  private final Document argument;
  private final MongoClient client;
  private final MongoDatabase db;
  private final boolean own;

  Driver(Document argument, MongoClient client) {
    this.argument = argument;
    this.client = client;
    db = client.getDatabase(argument.get("db", "test"));
    own = argument.getBoolean("own", true);
  }

  private int number(String name) {
    return argument.getInteger(name);
  }

  static List<Document> newDocuments(int from, int count) {
    List<Document> documents = new ArrayList<>();
    for (int k = from; k < from + count; ++k) {
      documents.add(new Document("k", k).append("text", "text " + k));
    }
    return documents;
  }

  /** How many the server took. A Document gets an _id from its codec, a RawBsonDocument none. */
  private int insertAll(ClientSession session, List<Document> documents, boolean ordered) {
    if (own) return insertAll(session, Document.class, documents, ordered);
    List<RawBsonDocument> raw =
        documents.stream().map(d -> new RawBsonDocument(d, new DocumentCodec())).toList();
    return insertAll(session, RawBsonDocument.class, raw, ordered);
  }

  private <T> int insertAll(
      ClientSession session, Class<T> type, List<T> documents, boolean ordered) {
    MongoCollection<T> collection = db.getCollection(argument.getString("coll"), type);
    InsertManyOptions options = new InsertManyOptions().ordered(ordered);
    return (session == null
            ? collection.insertMany(documents, options)
            : collection.insertMany(session, documents, options))
        .getInsertedIds()
        .size();
  }

  private static String failure(MongoException error) {
    boolean duplicate =
        error.getCode() == 11000
            || error instanceof MongoBulkWriteException bulk
                && bulk.getWriteErrors().stream().anyMatch(each -> each.getCode() == 11000);
    if (duplicate) return "duplicate";
    if (error instanceof MongoSocketException || error instanceof MongoTimeoutException) {
      return "unknown";
    }
    return error.toString();
  }

  Document insert() {
    List<Document> documents = newDocuments(0, number("count"));
    return new Document("inserted", insertAll(null, documents, argument.getBoolean("ordered")));
  }

  /** Inserts count batches of size documents, from first on, ordered and unordered in turn. */
  Document batches() {
    List<String> outcomes = new ArrayList<>();
    int first = number("first");
    int size = number("size");
    for (int i = 0; i < number("count"); ++i) {
      try {
        int n = insertAll(null, newDocuments((first + i) * size, size), i % 2 == 0);
        outcomes.add(n == size ? "ok" : n + " of " + size);
      } catch (MongoException error) {
        outcomes.add(failure(error));
      }
    }
    return new Document("outcomes", outcomes);
  }

  /**
   * Runs count transactions; each inserts one document, a line in the log and size documents more,
   * and adds to the sum. calls counts how often the callback was run.
   */
  Document transactions() {
    List<String> outcomes = new ArrayList<>();
    int[] calls = {0};
    int size = number("size") + 1;
    for (int i = 0; i < number("count"); ++i) {
      Document line = new Document("_id", i);
      int from = i * size;
      try (ClientSession session = client.startSession()) {
        session.withTransaction(
            () -> {
              ++calls[0];
              insertAll(session, newDocuments(from, 1), true);
              db.getCollection("log").insertOne(session, line);
              insertAll(session, newDocuments(from + 1, size - 1), true);
              return db.getCollection("sums")
                  .updateOne(session, Filters.eq("sum"), Updates.inc("n", size));
            });
        outcomes.add("ok");
      } catch (MongoException error) {
        outcomes.add(failure(error));
      }
    }
    return new Document("calls", calls[0]).append("outcomes", outcomes);
  }

  Document run() {
    switch (argument.getString("task")) {
      case "insert":
        return insert();
      case "ordinary":
        Ordinary.run(client, argument.getBoolean("replicaSet"));
        return new Document("done", true);
      case "batches":
        return batches();
      case "zeros":
        return Zeros.insert(db, argument);
      case "transactions":
        return transactions();
      default:
        throw new IllegalArgumentException("no such task");
    }
  }

  public static void main(String[] tasks) throws IOException, GeneralSecurityException {
    for (String task : tasks) {
      run(Document.parse(task));
    }
  }

  private static void run(Document argument) throws IOException, GeneralSecurityException {
    MongoClientSettings.Builder settings = Settings.of(argument.getString("uri"));
    if (argument.getString("task").equals("steps")) {
      Steps.run(settings, argument);
      return;
    }
    // As often as it takes: otherwise each lost connection is followed by half a second.
    settings.applyToServerSettings(s -> s.minHeartbeatFrequency(20, TimeUnit.MILLISECONDS));
    try (MongoClient client = MongoClients.create(settings.build())) {
      System.out.println(new Driver(argument, client).run().toJson());
    }
  }
}
