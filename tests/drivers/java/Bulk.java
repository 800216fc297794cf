import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Updates.set;
import static com.mongodb.client.model.bulk.ClientBulkWriteOptions.clientBulkWriteOptions;
import static com.mongodb.client.model.bulk.ClientUpdateOneOptions.clientUpdateOneOptions;

import com.mongodb.MongoNamespace;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.model.bulk.ClientBulkWriteOptions;
import com.mongodb.client.model.bulk.ClientBulkWriteResult;
import com.mongodb.client.model.bulk.ClientNamespacedWriteModel;
import java.util.ArrayList;
import java.util.List;
import org.bson.Document;

/** A bulkWrite of the client: see ../program.py. */
class Bulk {
  private static List<ClientNamespacedWriteModel> models(Document step) {
    List<MongoNamespace> namespaces =
        step.getList("namespaces", String.class).stream().map(MongoNamespace::new).toList();
    int count = step.getInteger("count");
    List<ClientNamespacedWriteModel> models = new ArrayList<>();
    for (Document document : Driver.newDocuments(0, count)) {
      MongoNamespace namespace = namespaces.get(models.size() % namespaces.size());
      models.add(ClientNamespacedWriteModel.insertOne(namespace, document));
    }
    models.add(
        ClientNamespacedWriteModel.updateOne(
            namespaces.get(0),
            eq("k", count),
            set("text", "text " + count),
            clientUpdateOneOptions().upsert(true)));
    return models;
  }

  static Document run(MongoClient client, Document step) {
    ClientBulkWriteOptions options =
        clientBulkWriteOptions()
            .ordered(step.getBoolean("ordered"))
            .verboseResults(step.getBoolean("verbose"));
    int[] calls = {0};
    ClientBulkWriteResult done;
    if (step.getBoolean("transaction")) {
      try (ClientSession session = client.startSession()) {
        done =
            session.withTransaction(
                () -> {
                  ++calls[0];
                  return client.bulkWrite(session, models(step), options);
                });
      }
    } else {
      ++calls[0];
      done = client.bulkWrite(models(step), options);
    }
    int results =
        done.getVerboseResults()
            .map(each -> each.getInsertResults().size() + each.getUpdateResults().size())
            .orElse(0);
    return new Document("inserted", done.getInsertedCount())
        .append("upserted", done.getUpsertedCount())
        .append("results", results)
        .append("calls", calls[0]);
  }
}
