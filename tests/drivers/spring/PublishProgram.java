package recipes;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.util.ArrayList;
import java.util.List;
import org.bson.Document;

/** Publishes the documents 2, 1 and 2 again; prints the numbers that it was told. Its argument is a URI. */
class PublishProgram {
  public static void main(String[] arguments) {
    try (MongoClient client = MongoClients.create(arguments[0])) {
      List<Long> told = new ArrayList<>();
      for (int id : new int[] {2, 1, 2}) told.add(DriverRecipes.publish(client, id));
      System.out.println(new Document("told", told).toJson());
    }
  }
}
