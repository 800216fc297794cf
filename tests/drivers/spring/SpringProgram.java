package recipes;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.data.mongodb.core.MongoOperations;
import org.springframework.transaction.support.TransactionTemplate;

/** Uses the recipes for Spring Data; prints the numbers that it was told. Its argument is a URI. */
class SpringProgram {
  private final String uri;
  private final List<String> told = new ArrayList<>();

  private SpringProgram(String uri) {
    this.uri = uri;
  }

  public static void main(String[] arguments) {
    SpringProgram program = new SpringProgram(arguments[0]);
    program.numberAfterInsert();
    program.numberBeforeInsert();
    program.integersAsId();
    System.out.println("{" + String.join(", ", program.told) + "}");
  }

  private AnnotationConfigApplicationContext shop(Class<?>... callbacks) {
    AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
    context.getEnvironment().getPropertySources()
        .addFirst(new MapPropertySource("arguments", Map.of("uri", uri)));
    context.register(Shop.class);
    if (callbacks.length > 0) context.register(callbacks);
    context.refresh();
    return context;
  }

  private void tell(String item, Long number) {
    told.add("\"%s\": %d".formatted(item, number));
  }

  private static Order order(String item) {
    Order order = new Order();
    order.item = item;
    return order;
  }

  private static void require(boolean condition, String what) {
    if (!condition) throw new AssertionError(what);
  }

  private void numberAfterInsert() {
    try (AnnotationConfigApplicationContext context = shop()) {
      MongoOperations template = context.getBean(MongoOperations.class);
      TransactionTemplate transactions = context.getBean(TransactionTemplate.class);

      Order after = SpringRecipes.insert(template, order("after"));
      template.save(after);
      tell("after", after.number);

      Order inside = transactions.execute(t -> SpringRecipes.insert(template, order("inside")));
      tell("inside", inside.number);

      Order created = SpringRecipes.orderOf(template, 1);
      require(created.number.equals(SpringRecipes.orderOf(template, 1).number), "created twice");
      tell("cup", created.number);
      transactions.executeWithoutResult(
          t -> {
            Order first = SpringRecipes.orderOf(template, 2);
            require(first.number.equals(SpringRecipes.orderOf(template, 2).number), "created twice");
            tell("cup in a transaction", first.number);
          });
    }
  }

  private void numberBeforeInsert() {
    try (AnnotationConfigApplicationContext context = shop(Numbers.class)) {
      MongoOperations template = context.getBean(MongoOperations.class);
      Orders orders = context.getBean(Orders.class);
      TransactionTemplate transactions = context.getBean(TransactionTemplate.class);

      tell("inserted", template.insert(order("inserted")).number);
      Order saved = orders.save(order("saved"));
      saved.item = "saved again";
      tell("saved again", orders.save(saved).number);
      List<Order> several = List.of(order("one"), order("two"));
      template.insertAll(several).forEach(each -> tell(each.item, each.number));
      tell("called back", transactions.execute(t -> orders.insert(order("called back"))).number);

      Order refused = order("refused once");
      refused.number = saved.number;
      try {
        template.insert(refused);
        throw new AssertionError("no duplicate");
      } catch (DuplicateKeyException expected) {
        refused.number = null;
        tell("refused once", template.insert(refused).number);
      }
    }
  }

  private void integersAsId() {
    try (AnnotationConfigApplicationContext context = shop(Keys.class)) {
      TransactionTemplate transactions = context.getBean(TransactionTemplate.class);
      Long outside = invoiceFor("Ann", context);
      Long inside = transactions.execute(t -> invoiceFor("Bob", context));
      require(!Objects.equals(outside, inside), "one invoice");
    }
  }

  /** Stores a customer and an invoice that refers to it, and reads both. Returns the invoice's _id. */
  private static Long invoiceFor(String name, AnnotationConfigApplicationContext context) {
    Customer customer = new Customer();
    customer.name = name;
    Invoice invoice = new Invoice();
    invoice.customer = context.getBean(Customers.class).save(customer);
    Long id = context.getBean(Invoices.class).insert(invoice).id;
    Invoice found = context.getBean(Invoices.class).findById(id).orElseThrow();
    require(found.customer.id.equals(customer.id) && found.customer.name.equals(name), "reference");
    // What is stored is replaced by itself.
    context.getBean(Customers.class).save(found.customer);
    return id;
  }
}
