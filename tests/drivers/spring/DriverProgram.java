package recipes;

import static com.mongodb.client.model.Filters.eq;

import com.mongodb.MongoWriteException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import java.util.ArrayList;
import java.util.List;
import org.bson.Document;

/** Uses the recipes for the Java driver; prints the numbers that it was told. Its argument is a URI. */
class DriverProgram {
  public static void main(String[] arguments) {
    try (MongoClient client = MongoClients.create(arguments[0])) {
      MongoCollection<Document> orders = client.getDatabase("shop").getCollection("orders");
      Document told = new Document("after", DriverRecipes.insert(orders, item("after")));

      List<Long> before = DriverRecipes.nextIds(client, "shop.orders", "number", 2);
      for (long number : before) orders.insertOne(item("before").append("number", number));

      List<Long> inside = new ArrayList<>();
      try (ClientSession session = client.startSession()) {
        session.withTransaction(
            () -> {
              inside.addAll(DriverRecipes.nextIds(client, "shop.orders", "number", 1));
              orders.insertOne(session, item("inside").append("number", inside.get(0)));
              // As the recipes do, with the session.
              Document order = item("after, inside");
              orders.insertOne(session, order);
              return inside.add(
                  orders.find(session, eq("_id", order.get("_id"))).first().getLong("number"));
            });
      }

      orders.insertOne(new Document("_id", 1).append("number", inside.get(1) + 1));
      DriverRecipes.insertNumbered(client, orders, item("numbered"));
      try {
        DriverRecipes.insertNumbered(client, orders, new Document("_id", 1));
        throw new AssertionError("no duplicate");
      } catch (MongoWriteException expected) {
        told.append("refused", expected.getCode());
      }

      Document created = DriverRecipes.orderOf(orders, 1);
      if (!created.equals(DriverRecipes.orderOf(orders, 1))) throw new AssertionError("created twice");
      told.append("before", before).append("inside", inside).append("created", created.get("number"));
      System.out.println(told.toJson());
    }
  }

  private static Document item(String name) {
    return new Document("item", name);
  }
}
