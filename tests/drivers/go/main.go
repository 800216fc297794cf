// Does tasks with the Go driver, one after the other; prints what came of each as a line of JSON.
//
//	driver '{"task": "insert" | "ordinary" | "batches" | "transactions" | "zeros" | "steps", ...}' ...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type argument struct {
	Task, URI, DB, Coll      string
	Count, Size, First       int
	Ordered, Own, ReplicaSet bool
}

func newDocuments(from, count int) []any {
	documents := make([]any, count)
	for i := range documents {
		k := from + i
		documents[i] = bson.D{{"k", int32(k)}, {"text", fmt.Sprintf("text %d", k)}}
	}
	return documents
}

// insertAll returns how many the server took. InsertMany always makes an _id; RunCommand does not.
func insertAll(ctx context.Context, coll *mongo.Collection, own, ordered bool,
	documents []any) (int, error) {
	if own {
		result, err := coll.InsertMany(ctx, documents, options.InsertMany().SetOrdered(ordered))
		if err != nil {
			return 0, err
		}
		return len(result.InsertedIDs), nil
	}
	var reply struct{ N int }
	err := coll.Database().RunCommand(ctx, bson.D{{"insert", coll.Name()},
		{"documents", documents}, {"ordered", ordered}}).Decode(&reply)
	return reply.N, err
}

func outcome(inserted, expected int, err error) string {
	switch {
	case err == nil && inserted == expected:
		return "ok"
	case err == nil:
		return fmt.Sprintf("%d of %d", inserted, expected)
	case mongo.IsDuplicateKeyError(err):
		return "duplicate"
	case mongo.IsNetworkError(err) || mongo.IsTimeout(err):
		return "unknown"
	}
	return err.Error()
}

// batches inserts count batches of size documents, from batch first on, ordered and unordered in
// turn.
func batches(ctx context.Context, coll *mongo.Collection, a argument) any {
	outcomes := make([]string, a.Count)
	for i := range outcomes {
		n, err := insertAll(ctx, coll, a.Own, i%2 == 0, newDocuments((a.First+i)*a.Size, a.Size))
		outcomes[i] = outcome(n, a.Size, err)
	}
	return bson.M{"outcomes": outcomes}
}

// transactions runs count of them; each inserts one document, a line in the log and size documents
// more, and adds to the sum. calls counts how often the callback was run.
func transactions(ctx context.Context, coll *mongo.Collection, a argument) any {
	db := coll.Database()
	session, err := db.Client().StartSession()
	check(err)
	defer session.EndSession(ctx)
	calls, outcomes := 0, make([]string, a.Count)
	for i := range outcomes {
		documents := newDocuments(i*(a.Size+1), a.Size+1)
		_, err := session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
			calls++
			if _, err := insertAll(ctx, coll, a.Own, true, documents[:1]); err != nil {
				return nil, err
			}
			if _, err := db.Collection("log").InsertOne(ctx, bson.D{{"_id", i}}); err != nil {
				return nil, err
			}
			if _, err := insertAll(ctx, coll, a.Own, true, documents[1:]); err != nil {
				return nil, err
			}
			return db.Collection("sums").UpdateOne(ctx, bson.D{{"_id", "sum"}},
				bson.D{{"$inc", bson.D{{"n", len(documents)}}}})
		})
		outcomes[i] = outcome(0, 0, err)
	}
	return bson.M{"calls": calls, "outcomes": outcomes}
}

func run(ctx context.Context, client *mongo.Client, a argument) any {
	coll := client.Database(a.DB).Collection(a.Coll)
	switch a.Task {
	case "insert":
		inserted, err := insertAll(ctx, coll, a.Own, a.Ordered, newDocuments(0, a.Count))
		check(err)
		return bson.M{"inserted": inserted}
	case "ordinary":
		ordinary(ctx, client, a.ReplicaSet)
		return bson.M{"done": true}
	case "batches":
		return batches(ctx, coll, a)
	case "zeros":
		return zeros(ctx, coll, a)
	case "transactions":
		return transactions(ctx, coll, a)
	}
	panic("no such task: " + a.Task)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	for _, task := range os.Args[1:] {
		var a argument
		check(json.Unmarshal([]byte(task), &a))
		do(context.Background(), a)
	}
}

func do(ctx context.Context, a argument) {
	if a.Task == "steps" {
		steps(ctx, a)
		return
	}
	client, err := mongo.Connect(options.Client().ApplyURI(a.URI))
	check(err)
	defer client.Disconnect(ctx)
	check(json.NewEncoder(os.Stdout).Encode(run(ctx, client, a)))
}
