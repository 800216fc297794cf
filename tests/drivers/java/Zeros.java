import static org.bson.codecs.configuration.CodecRegistries.fromProviders;
import static org.bson.codecs.configuration.CodecRegistries.fromRegistries;

import com.mongodb.MongoClientSettings;
import com.mongodb.client.MongoDatabase;
import java.util.ArrayList;
import java.util.List;
import org.bson.Document;
import org.bson.codecs.pojo.PojoCodecProvider;
import org.bson.codecs.pojo.annotations.BsonId;

/** Objects of which no field was set. */
public final class Zeros {
  /** Sends 0. */
  public static final class Plain {
    public long number;
    public String code;
  }

  /** Leaves the number out, since null is not sent. */
  public static final class Sparse {
    public Long number;
    public String code;
  }

  /** Sends 0 as its _id. */
  public static final class Keyed {
    @BsonId public long id;
  }

  /** The driver sees no _id, and makes an ObjectId. */
  public static final class SparselyKeyed {
    @BsonId public Long id;
  }

  private Zeros() {}

  /** Inserts count objects; with own, sparse ones; with keyed, such as have nothing but an _id. */
  static Document insert(MongoDatabase db, Document argument) {
    boolean own = argument.getBoolean("own", false);
    Class<?> type = own ? Sparse.class : Plain.class;
    if (argument.getBoolean("keyed", false)) type = own ? SparselyKeyed.class : Keyed.class;
    return insert(db, argument, type);
  }

  private static <T> Document insert(MongoDatabase db, Document argument, Class<T> type) {
    var codecs = fromRegistries(
        MongoClientSettings.getDefaultCodecRegistry(),
        fromProviders(PojoCodecProvider.builder().automatic(true).build()));
    List<T> objects = new ArrayList<>();
    for (int i = 0; i < argument.getInteger("count"); i++) {
      try {
        objects.add(type.getDeclaredConstructor().newInstance());
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException(e);
      }
    }
    var coll = db.getCollection(argument.getString("coll"), type).withCodecRegistry(codecs);
    return new Document("inserted", coll.insertMany(objects).getInsertedIds().size());
  }
}
