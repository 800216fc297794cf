package orders;

import com.mongodb.client.MongoClient;
import dev.morphia.Datastore;
import dev.morphia.Morphia;
import dev.morphia.annotations.Entity;
import dev.morphia.annotations.Id;
import dev.morphia.annotations.IndexOptions;
import dev.morphia.annotations.Indexed;
import dev.morphia.annotations.Version;
import java.util.List;
import org.bson.types.ObjectId;

@Entity(value = "orders_morphia", useDiscriminator = false)
class MorphiaOrder {
  @Id ObjectId id;
  String way;
  String item = "cup";

  @Indexed(options = @IndexOptions(unique = true, sparse = true))
  Long number;

  static MorphiaOrder of(String way) {
    MorphiaOrder order = new MorphiaOrder();
    order.way = "morphia " + way;
    return order;
  }
}

@Entity(value = "orders_morphia_versioned", useDiscriminator = false)
class VersionedMorphiaOrder {
  @Id ObjectId id;
  @Version Long version;
  String way = "morphia @Version";
  String item = "cup";

  @Indexed(options = @IndexOptions(unique = true, sparse = true))
  Long number;
}

/** An application of Morphia 2, as it would be without the proxy. */
@SuppressWarnings("removal") // what 2.5 still offers for it
class MorphiaOrders implements Odm {
  private final Datastore datastore;
  private final MorphiaOrder saved = MorphiaOrder.of("save");
  private final List<MorphiaOrder> several = List.of(MorphiaOrder.of("save 0"), MorphiaOrder.of("save 1"));
  private final VersionedMorphiaOrder versioned = new VersionedMorphiaOrder();

  MorphiaOrders(MongoClient client, String db) {
    datastore = Morphia.createDatastore(client, db);
    datastore.getMapper().map(MorphiaOrder.class, VersionedMorphiaOrder.class);
  }

  @Override
  public void init() {
    datastore.ensureIndexes();
  }

  @Override
  public void first() {
    datastore.save(saved);
    datastore.save(several);
    datastore.save(versioned);
  }

  @Override
  public void second() {
    saved.item = "pot";
    several.forEach(each -> each.item = "pot");
    versioned.item = "pot";
    first();
  }
}
