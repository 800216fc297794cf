package main

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// equal fails loudly where something is amiss.
func equal(actual any, err error, expected any) {
	check(err)
	if !reflect.DeepEqual(actual, expected) {
		panic(fmt.Sprintf("%v instead of %v", actual, expected))
	}
}

func crud(ctx context.Context, db *mongo.Database) {
	people := db.Collection("people")
	documents := make([]any, 1000)
	for i := range documents {
		documents[i] = bson.D{{"_id", i}, {"age", i % 100}}
	}
	_, err := people.InsertMany(ctx, documents)
	check(err)
	n, err := people.CountDocuments(ctx, bson.M{"age": bson.M{"$lt": 50}})
	equal(n, err, int64(500))
	updated, err := people.UpdateMany(ctx, bson.M{"age": 1}, bson.M{"$set": bson.M{"x": 1}})
	check(err)
	equal(updated.ModifiedCount, nil, int64(10))
	var person struct{ Age int }
	err = people.FindOneAndUpdate(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"age": 1}},
		options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&person)
	equal(person.Age, err, 2)
	upserted, err := people.UpdateOne(ctx, bson.M{"_id": 5000}, bson.M{"$set": bson.M{"y": 1}},
		options.UpdateOne().SetUpsert(true))
	check(err)
	equal(upserted.UpsertedID, nil, int32(5000))
	deleted, err := people.DeleteMany(ctx, bson.M{"age": bson.M{"$gte": 90}})
	check(err)
	equal(deleted.DeletedCount, nil, int64(100))
	cursor, err := people.Find(ctx, bson.M{},
		options.Find().SetSort(bson.M{"_id": 1}).SetBatchSize(7).SetLimit(100))
	check(err)
	var found []bson.M
	err = cursor.All(ctx, &found)
	equal(len(found), err, 100)
	_, err = people.InsertOne(ctx, bson.M{"_id": 1})
	equal(mongo.IsDuplicateKeyError(err), nil, true)
}

func gridfs(ctx context.Context, db *mongo.Database) {
	content := bytes.Repeat([]byte("some bytes "), 2_000_000)
	bucket := db.GridFSBucket()
	_, err := bucket.UploadFromStream(ctx, "large", bytes.NewReader(content))
	check(err)
	var read bytes.Buffer
	_, err = bucket.DownloadToStreamByName(ctx, "large", &read)
	equal(bytes.Equal(read.Bytes(), content), err, true)
}

func changeStream(ctx context.Context, db *mongo.Database) {
	watched := db.Collection("watched")
	stream, err := watched.Watch(ctx, mongo.Pipeline{})
	check(err)
	defer stream.Close(ctx)
	_, err = watched.InsertOne(ctx, bson.M{"_id": 1})
	equal(stream.Next(ctx), err, true)
	equal(stream.Current.Lookup("operationType").StringValue(), nil, "insert")
}

func transaction(ctx context.Context, db *mongo.Database) {
	accounts := db.Collection("accounts")
	_, err := accounts.InsertMany(ctx,
		[]any{bson.M{"_id": "a", "sum": 10}, bson.M{"_id": "b", "sum": 0}})
	check(err)
	session, err := db.Client().StartSession()
	check(err)
	defer session.EndSession(ctx)
	add := func(ctx context.Context, id string, n int) error {
		_, err := accounts.UpdateOne(ctx, bson.M{"_id": id}, bson.M{"$inc": bson.M{"sum": n}})
		return err
	}
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		if err := add(ctx, "a", -5); err != nil {
			return nil, err
		}
		return nil, add(ctx, "b", 5)
	})
	check(err)
	n, err := accounts.CountDocuments(ctx, bson.M{"sum": 5})
	equal(n, err, int64(2))
}

func ordinary(ctx context.Context, client *mongo.Client, replicaSet bool) {
	db := client.Database("ordinary_go")
	check(db.Drop(ctx))
	crud(ctx, db)
	gridfs(ctx, db)
	if replicaSet {
		changeStream(ctx, db)
		transaction(ctx, db)
	}
	check(db.Drop(ctx))
}
