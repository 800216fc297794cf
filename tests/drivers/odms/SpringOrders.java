package orders;

import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.mongodb.core.index.Indexed;
import org.springframework.data.mongodb.core.mapping.Document;
import org.springframework.data.mongodb.repository.MongoRepository;

/** An application of Spring Boot, as it would be without the proxy. */
@SpringBootApplication
class SpringOrders {}

@Document("orders_spring")
class Order {
  @Id String id;
  String way;
  String item;

  @Indexed(unique = true, sparse = true)
  Long number;

  static Order of(String way) {
    Order order = new Order();
    order.way = "spring " + way;
    order.item = "cup";
    return order;
  }
}

@Document("orders_versioned")
class VersionedOrder {
  @Id String id;
  @Version Long version;
  String way = "spring @Version";
  String item = "cup";

  @Indexed(unique = true, sparse = true)
  Long number;
}

interface Orders extends MongoRepository<Order, String> {}

interface VersionedOrders extends MongoRepository<VersionedOrder, String> {}

class Spring implements Odm {
  private final String uri;
  private final String db;
  private ConfigurableApplicationContext context;
  private final Order saved = Order.of("save");
  private final Order assigned = Order.of("save with an id");
  private final List<Order> several = List.of(Order.of("saveAll 0"), Order.of("saveAll 1"));
  private final VersionedOrder versioned = new VersionedOrder();

  Spring(String uri, String db) {
    this.uri = uri;
    this.db = db;
    assigned.id = "assigned";
  }

  private void start(boolean indexes) {
    if (context != null) return;
    context =
        new SpringApplicationBuilder(SpringOrders.class)
            .logStartupInfo(false)
            .properties(
                "spring.main.banner-mode=off",
                "logging.level.root=warn",
                "spring.data.mongodb.uri=" + uri,
                "spring.data.mongodb.database=" + db,
                "spring.data.mongodb.auto-index-creation=" + indexes)
            .run();
  }

  @Override
  public void init() {
    start(true);
  }

  @Override
  public void first() {
    start(false);
    save();
  }

  @Override
  public void second() {
    List<Order> all = new ArrayList<>(several);
    all.addAll(List.of(saved, assigned));
    all.forEach(each -> each.item = "pot");
    versioned.item = "pot";
    save();
  }

  private void save() {
    Orders orders = context.getBean(Orders.class);
    orders.save(saved);
    orders.save(assigned);
    orders.saveAll(several);
    context.getBean(VersionedOrders.class).save(versioned);
  }
}
