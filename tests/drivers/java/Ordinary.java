import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Filters.gte;
import static com.mongodb.client.model.Filters.lt;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.set;

import com.mongodb.MongoWriteException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoChangeStreamCursor;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.gridfs.GridFSBucket;
import com.mongodb.client.gridfs.GridFSBuckets;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.bson.BsonInt32;
import org.bson.Document;

/** Ordinary work with the Java driver through the proxy; fails loudly where something is amiss. */
class Ordinary {
  private static void equal(Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) {
      throw new AssertionError(actual + " instead of " + expected);
    }
  }

  private static void crud(MongoDatabase db) {
    MongoCollection<Document> people = db.getCollection("people");
    List<Document> documents = new ArrayList<>();
    for (int i = 0; i < 1000; ++i) documents.add(new Document("_id", i).append("age", i % 100));
    people.insertMany(documents);
    equal(people.countDocuments(lt("age", 50)), 500L);
    equal(people.updateMany(eq("age", 1), set("x", 1)).getModifiedCount(), 10L);
    Document person =
        people.findOneAndUpdate(
            eq(1),
            inc("age", 1),
            new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER));
    equal(person.getInteger("age"), 2);
    equal(
        people.updateOne(eq(5000), set("y", 1), new UpdateOptions().upsert(true)).getUpsertedId(),
        new BsonInt32(5000));
    equal(people.deleteMany(gte("age", 90)).getDeletedCount(), 100L);
    List<Document> found =
        people.find().sort(new Document("_id", 1)).batchSize(7).limit(100).into(new ArrayList<>());
    equal(found.size(), 100);
    int code = 0;
    try {
      people.insertOne(new Document("_id", 1));
    } catch (MongoWriteException error) {
      code = error.getCode();
    }
    equal(code, 11000);
  }

  private static void gridfs(MongoDatabase db) {
    byte[] content = "some bytes ".repeat(2_000_000).getBytes();
    GridFSBucket bucket = GridFSBuckets.create(db);
    bucket.uploadFromStream("large", new ByteArrayInputStream(content));
    ByteArrayOutputStream read = new ByteArrayOutputStream();
    bucket.downloadToStream("large", read);
    equal(Arrays.equals(read.toByteArray(), content), true);
  }

  private static void changeStream(MongoDatabase db) {
    MongoCollection<Document> watched = db.getCollection("watched");
    try (MongoChangeStreamCursor<ChangeStreamDocument<Document>> stream =
        watched.watch().cursor()) {
      watched.insertOne(new Document("_id", 1));
      equal(stream.next().getOperationTypeString(), "insert");
    }
  }

  private static void transaction(MongoClient client, MongoDatabase db) {
    MongoCollection<Document> accounts = db.getCollection("accounts");
    accounts.insertMany(
        List.of(new Document("_id", "a").append("sum", 10), new Document("_id", "b")));
    try (ClientSession session = client.startSession()) {
      session.withTransaction(
          () -> {
            accounts.updateOne(session, eq("a"), inc("sum", -5));
            return accounts.updateOne(session, eq("b"), inc("sum", 5));
          });
    }
    equal(accounts.countDocuments(eq("sum", 5)), 2L);
  }

  static void run(MongoClient client, boolean replicaSet) {
    MongoDatabase db = client.getDatabase("ordinary_java");
    db.drop();
    crud(db);
    gridfs(db);
    if (replicaSet) {
      changeStream(db);
      transaction(client, db);
    }
    db.drop();
  }
}
