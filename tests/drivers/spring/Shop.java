package recipes;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.data.mongodb.MongoDatabaseFactory;
import org.springframework.data.mongodb.MongoTransactionManager;
import org.springframework.data.mongodb.config.AbstractMongoClientConfiguration;
import org.springframework.data.mongodb.repository.MongoRepository;
import org.springframework.data.mongodb.repository.config.EnableMongoRepositories;
import org.springframework.transaction.support.TransactionTemplate;

/** An application of Spring Data, as it would be without the proxy. */
@Configuration
@EnableMongoRepositories
class Shop extends AbstractMongoClientConfiguration {
  private final Environment environment;

  Shop(Environment environment) {
    this.environment = environment;
  }

  @Override
  protected String getDatabaseName() {
    return "shop";
  }

  @Bean
  @Override
  public MongoClient mongoClient() {
    return MongoClients.create(environment.getRequiredProperty("uri"));
  }

  @Bean
  TransactionTemplate transactions(MongoDatabaseFactory factory) {
    return new TransactionTemplate(new MongoTransactionManager(factory));
  }
}

interface Customers extends MongoRepository<Customer, Long> {}

interface Invoices extends MongoRepository<Invoice, Long> {}

interface Orders extends MongoRepository<Order, String> {}
