import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.exists;
import static com.mongodb.client.model.Updates.inc;

import com.mongodb.MongoBulkWriteException;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoException;
import com.mongodb.ReadPreference;
import com.mongodb.client.MongoChangeStreamCursor;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import com.mongodb.connection.ClusterDescription;
import com.mongodb.connection.ServerDescription;
import com.mongodb.event.ClusterDescriptionChangedEvent;
import com.mongodb.event.ClusterListener;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import org.bson.Document;

/** One step for each line of the standard input, all with one client: see ../program.py. */
class Steps {
  private final MongoClient client;
  private final Document argument;
  /** The addresses of all servers that the driver has heard of. */
  private final Set<String> ever;

  private MongoChangeStreamCursor<ChangeStreamDocument<Document>> stream;

  private Steps(MongoClient client, Document argument, Set<String> ever) {
    this.client = client;
    this.argument = argument;
    this.ever = ever;
  }

  private static Document find(MongoCollection<Document> collection, Document step) {
    MongoCollection<Document> from =
        step.getBoolean("secondaryPreferred")
            ? collection.withReadPreference(ReadPreference.secondaryPreferred())
            : collection;
    List<Integer> found = new ArrayList<>();
    for (int i = 0; i < step.getInteger("times"); ++i) {
      found.add(
          from.find(exists("k"))
              .comment(step.getString("comment"))
              .into(new ArrayList<>())
              .size());
    }
    return new Document("found", found);
  }

  /** A document's life with every write that is retryable. n is 2 if none was done twice. */
  private static Document life(MongoCollection<Document> collection, int k) {
    collection.insertOne(Driver.newDocuments(k, 1).get(0));
    long modified = collection.updateOne(eq("k", k), inc("n", 1)).getModifiedCount();
    Document after =
        collection.findOneAndUpdate(
            eq("k", k),
            inc("n", 1),
            new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER));
    int inserted =
        collection
            .insertMany(List.of(new Document("more", k), new Document("more", k)))
            .getInsertedIds()
            .size();
    long deleted = collection.deleteOne(eq("more", k)).getDeletedCount();
    return new Document("modified", modified)
        .append("n", after.get("n"))
        .append("inserted", inserted)
        .append("deleted", deleted)
        .append("document", collection.find(eq("k", k)).first());
  }

  private Document events(int count) {
    List<Document> events = new ArrayList<>();
    while (events.size() < count) events.add(stream.next().getFullDocument());
    return new Document("events", events);
  }

  private static String type(ServerDescription server) {
    switch (server.getType()) {
      case REPLICA_SET_PRIMARY:
        return "RSPrimary";
      case REPLICA_SET_SECONDARY:
        return "RSSecondary";
      default:
        return server.getType().toString();
    }
  }

  private static void add(ClusterDescription description, Set<String> addresses) {
    description.getServerDescriptions().forEach(s -> addresses.add(s.getAddress().toString()));
  }

  private Document topology() {
    Document servers = new Document();
    for (ServerDescription server : client.getClusterDescription().getServerDescriptions()) {
      servers.append(server.getAddress().toString(), type(server));
    }
    return new Document("servers", servers).append("ever", new ArrayList<>(ever));
  }

  private Document step(Document step) {
    Document whole = new Document(argument);
    whole.putAll(step);
    MongoCollection<Document> collection =
        client.getDatabase(whole.getString("db")).getCollection(whole.get("coll", "none"));
    switch (step.getString("step")) {
      case "insert":
        return new Document(
            "inserted",
            collection
                .insertMany(Driver.newDocuments(step.getInteger("first"), step.getInteger("count")))
                .getInsertedIds()
                .size());
      case "find":
        return find(collection, step);
      case "life":
        return life(collection, step.getInteger("k"));
      case "upsert":
        return new Upsert(collection, step).run(step);
      case "bulk":
        return Bulk.run(client, step);
      case "transactions":
        return new Driver(whole, client).transactions();
      case "watch":
        stream = collection.watch().cursor();
        return new Document();
      case "events":
        return events(step.getInteger("count"));
      case "unwatch":
        stream.close();
        return new Document();
      case "topology":
        return topology();
      default:
        throw new IllegalArgumentException("no such step");
    }
  }

  private static List<Integer> codes(RuntimeException error) {
    List<Integer> codes = new ArrayList<>();
    if (error instanceof MongoBulkWriteException) {
      MongoBulkWriteException failed = (MongoBulkWriteException) error;
      failed.getWriteErrors().forEach(e -> codes.add(e.getCode()));
      if (failed.getWriteConcernError() != null) {
        codes.add(failed.getWriteConcernError().getCode());
      }
    } else if (error instanceof MongoException && ((MongoException) error).getCode() > 0) {
      codes.add(((MongoException) error).getCode());
    }
    return codes;
  }

  static void run(MongoClientSettings.Builder settings, Document argument) throws IOException {
    Set<String> ever = new ConcurrentSkipListSet<>();
    ClusterListener listener =
        new ClusterListener() {
          @Override
          public void clusterDescriptionChanged(ClusterDescriptionChangedEvent event) {
            add(event.getNewDescription(), ever);
          }
        };
    settings.applyToClusterSettings(s -> s.addClusterListener(listener));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    try (MongoClient client = MongoClients.create(settings.build())) {
      Steps steps = new Steps(client, argument, ever);
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        Document result;
        try {
          result = steps.step(Document.parse(line));
        } catch (RuntimeException error) {
          error.printStackTrace();
          result = new Document("error", error.toString()).append("codes", codes(error));
        }
        System.out.println(result.toJson());
      }
    }
  }
}
