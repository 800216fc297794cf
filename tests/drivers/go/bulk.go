package main

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type bulkStep struct {
	Namespaces           []string
	Verbose, Transaction bool
}

func in(namespace string, model mongo.ClientWriteModel) mongo.ClientBulkWrite {
	db, coll, _ := strings.Cut(namespace, ".")
	return mongo.ClientBulkWrite{Database: db, Collection: coll, Model: model}
}

// bulk is a BulkWrite of the client: see ../program.py.
func bulk(ctx context.Context, client *mongo.Client, b bulkStep, count int, ordered bool) bson.M {
	calls := 0
	write := func(ctx context.Context) (any, error) {
		calls++
		var models []mongo.ClientBulkWrite
		for i, document := range newDocuments(0, count) {
			models = append(models, in(b.Namespaces[i%len(b.Namespaces)],
				mongo.NewClientInsertOneModel().SetDocument(document)))
		}
		models = append(models, in(b.Namespaces[0], mongo.NewClientUpdateOneModel().
			SetFilter(bson.D{{"k", int32(count)}}).SetUpsert(true).
			SetUpdate(bson.D{{"$set", bson.D{{"text", fmt.Sprintf("text %d", count)}}}})))
		return client.BulkWrite(ctx, models,
			options.ClientBulkWrite().SetOrdered(ordered).SetVerboseResults(b.Verbose))
	}
	var result any
	var err error
	if b.Transaction {
		session, failed := client.StartSession()
		check(failed)
		defer session.EndSession(ctx)
		result, err = session.WithTransaction(ctx, write)
	} else {
		result, err = write(ctx)
	}
	check(err)
	done := result.(*mongo.ClientBulkWriteResult)
	return bson.M{"inserted": done.InsertedCount, "upserted": done.UpsertedCount,
		"results": len(done.InsertResults) + len(done.UpdateResults), "calls": calls}
}
