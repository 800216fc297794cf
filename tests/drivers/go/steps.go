package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// topology is what the driver's events tell of it. Thread-safe.
type topology struct {
	lock sync.Mutex
	now  map[string]string // a server's address to its type
	ever map[string]bool   // the addresses of all servers that the driver has heard of
}

func (t *topology) changed(e *event.TopologyDescriptionChangedEvent) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.now = map[string]string{}
	for _, server := range e.NewDescription.Servers {
		t.now[server.Addr.String()] = server.Kind
		t.ever[server.Addr.String()] = true
	}
}

func (t *topology) step() bson.M {
	t.lock.Lock()
	defer t.lock.Unlock()
	ever := []string{}
	for address := range t.ever {
		ever = append(ever, address)
	}
	return bson.M{"servers": t.now, "ever": ever}
}

type step struct {
	argument
	operation
	bulkStep
	Step, Comment      string
	K, Times           int
	Tasks, Sleep       int
	DBs                []string
	SecondaryPreferred bool
}

func find(ctx context.Context, coll *mongo.Collection, s step) bson.M {
	if s.SecondaryPreferred {
		coll = coll.Database().Collection(coll.Name(),
			options.Collection().SetReadPreference(readpref.SecondaryPreferred()))
	}
	counts := make([]int, s.Times)
	for i := range counts {
		cursor, err := coll.Find(ctx, bson.M{"k": bson.M{"$exists": true}},
			options.Find().SetComment(s.Comment))
		check(err)
		var found []bson.M
		check(cursor.All(ctx, &found))
		counts[i] = len(found)
	}
	return bson.M{"found": counts}
}

// life is a document's life with every write that is retryable. n is 2 if none was done twice.
func life(ctx context.Context, coll *mongo.Collection, k int) bson.M {
	key, more := bson.M{"k": k}, bson.M{"more": k}
	increment := bson.M{"$inc": bson.M{"n": 1}}
	_, err := coll.InsertOne(ctx, newDocuments(k, 1)[0])
	check(err)
	updated, err := coll.UpdateOne(ctx, key, increment)
	check(err)
	var after struct{ N int }
	check(coll.FindOneAndUpdate(ctx, key, increment,
		options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&after))
	inserted, err := coll.InsertMany(ctx, []any{more, more})
	check(err)
	deleted, err := coll.DeleteOne(ctx, more)
	check(err)
	var document bson.M
	check(coll.FindOne(ctx, key).Decode(&document))
	return bson.M{"modified": updated.ModifiedCount, "n": after.N,
		"inserted": len(inserted.InsertedIDs), "deleted": deleted.DeletedCount,
		"document": document}
}

func events(ctx context.Context, stream *mongo.ChangeStream, count int) bson.M {
	found := bson.A{}
	for len(found) < count {
		if !stream.Next(ctx) {
			panic(stream.Err())
		}
		var change struct{ FullDocument bson.M }
		check(stream.Decode(&change))
		found = append(found, change.FullDocument)
	}
	return bson.M{"events": found}
}

// firsts inserts one document into the collection of this name in each of s.DBs, s.Tasks of them at
// a time.
func firsts(ctx context.Context, client *mongo.Client, s step) bson.M {
	var lock sync.Mutex
	errors, milliseconds := bson.A{}, bson.A{}
	insert := func(name string) {
		since := time.Now()
		_, err := client.Database(name).Collection(s.Coll).InsertOne(ctx, bson.M{"k": 1})
		lock.Lock()
		defer lock.Unlock()
		milliseconds = append(milliseconds, float64(time.Since(since).Microseconds())/1000)
		if err != nil {
			errors = append(errors, err.Error())
		}
	}
	names := make(chan string, len(s.DBs))
	for _, name := range s.DBs {
		names <- name
	}
	close(names)
	each := func(work func()) {
		var tasks sync.WaitGroup
		for i := 0; i < s.Tasks; i++ {
			tasks.Add(1)
			go func() {
				defer tasks.Done()
				work()
			}()
		}
		tasks.Wait()
	}
	each(func() {
		client.Database("admin").RunCommand(ctx,
			bson.D{{"sleep", 1}, {"millis", s.Sleep}, {"lock", "none"}})
	})
	each(func() {
		for name := range names {
			insert(name)
		}
	})
	return bson.M{"errors": errors, "milliseconds": milliseconds}
}

// codes are those that the server gave.
func codes(err error) []int {
	found := []int{}
	for _, code := range mongo.ErrorCodes(err) {
		if code > 0 {
			found = append(found, code)
		}
	}
	return found
}

// steps does one step for each line of the standard input, all with one client: see ../program.py.
func steps(ctx context.Context, a argument) {
	known := topology{ever: map[string]bool{}}
	client, err := mongo.Connect(options.Client().ApplyURI(a.URI).SetServerMonitor(
		&event.ServerMonitor{TopologyDescriptionChanged: known.changed}))
	check(err)
	defer client.Disconnect(ctx)
	var stream *mongo.ChangeStream

	do := func(s step) (result any) {
		defer func() {
			if failure := recover(); failure != nil {
				err, _ := failure.(error)
				result = bson.M{"error": fmt.Sprint(failure), "codes": codes(err)}
			}
		}()
		coll := client.Database(a.DB).Collection(s.Coll)
		switch s.Step {
		case "insert":
			n, err := insertAll(ctx, coll, true, true, newDocuments(s.First, s.Count))
			check(err)
			return bson.M{"inserted": n}
		case "everyday":
			return bson.M{"stored": everyday(ctx, coll, s.First)}
		case "find":
			return find(ctx, coll, s)
		case "life":
			return life(ctx, coll, s.K)
		case "upsert":
			return upsert(ctx, coll, s.operation, s.Ordered)
		case "bulk":
			return bulk(ctx, client, s.bulkStep, s.Count, s.Ordered)
		case "firsts":
			return firsts(ctx, client, s)
		case "transactions":
			return transactions(ctx, coll, s.argument)
		case "watch":
			var err error
			stream, err = coll.Watch(ctx, mongo.Pipeline{})
			check(err)
			return bson.M{}
		case "events":
			return events(ctx, stream, s.Count)
		case "unwatch":
			check(stream.Close(ctx))
			return bson.M{}
		case "topology":
			return known.step()
		}
		panic("no such step: " + s.Step)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var s step
		check(json.Unmarshal(lines.Bytes(), &s))
		result, err := bson.MarshalExtJSON(do(s), false, false)
		check(err)
		fmt.Println(string(result))
	}
}
