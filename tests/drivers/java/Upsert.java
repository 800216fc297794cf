import static com.mongodb.client.model.Filters.eq;

import com.mongodb.bulk.BulkWriteResult;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.BulkWriteOptions;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.ReplaceOptions;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.UpdateOneModel;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.Updates;
import com.mongodb.client.result.UpdateResult;
import java.util.List;
import org.bson.Document;
import org.bson.conversions.Bson;

/** An upsert, by the key k of its documents: see ../program.py. */
class Upsert {
  private static final Bson UPDATE = Updates.inc("n", 1);
  private static final UpdateOptions OPTIONS = new UpdateOptions().upsert(true);

  private final MongoCollection<Document> collection;
  private final List<Integer> keys;

  Upsert(MongoCollection<Document> collection, Document step) {
    this.collection = collection;
    keys = step.getList("keys", Integer.class);
  }

  Document run(Document step) {
    Bson filter = eq("k", keys.get(0));
    switch (step.getString("op")) {
      case "bulkWrite":
        return bulkWrite(step.getBoolean("ordered"));
      case "findOneAndUpdate":
        return findOneAndUpdate(filter);
      case "updateOne":
        return told(collection.updateOne(filter, UPDATE, OPTIONS));
      case "updateMany":
        return told(collection.updateMany(filter, UPDATE, OPTIONS));
      case "replaceOne":
        Document replacement = step.get("replacement", Document.class);
        return told(
            collection.replaceOne(filter, replacement, new ReplaceOptions().upsert(true)));
      default:
        throw new IllegalArgumentException("no such operation");
    }
  }

  private Document bulkWrite(boolean ordered) {
    List<UpdateOneModel<Document>> models =
        keys.stream().map(k -> new UpdateOneModel<Document>(eq("k", k), UPDATE, OPTIONS)).toList();
    BulkWriteResult result =
        collection.bulkWrite(models, new BulkWriteOptions().ordered(ordered));
    Document upserted = new Document();
    result.getUpserts().forEach(u -> upserted.append(String.valueOf(u.getIndex()), u.getId()));
    return new Document("matched", result.getMatchedCount()).append("upserted", upserted);
  }

  private Document findOneAndUpdate(Bson filter) {
    FindOneAndUpdateOptions options =
        new FindOneAndUpdateOptions().upsert(true).returnDocument(ReturnDocument.AFTER);
    return new Document("document", collection.findOneAndUpdate(filter, UPDATE, options));
  }

  private static Document told(UpdateResult result) {
    Document upserted = new Document();
    if (result.getUpsertedId() != null) upserted.append("0", result.getUpsertedId());
    return new Document("matched", result.getMatchedCount()).append("upserted", upserted);
  }
}
