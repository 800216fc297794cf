package main

import (
	"context"
	"encoding/json"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type operation struct {
	Op          string
	Keys        []int32
	Replacement json.RawMessage
}

var increment = bson.D{{"$inc", bson.D{{"n", int32(1)}}}}

func updateAll(ctx context.Context, coll *mongo.Collection, keys []int32, ordered bool) bson.M {
	models := make([]mongo.WriteModel, len(keys))
	for i, k := range keys {
		models[i] = mongo.NewUpdateOneModel().SetFilter(bson.D{{"k", k}}).SetUpdate(increment).
			SetUpsert(true)
	}
	result, err := coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(ordered))
	check(err)
	upserted := bson.M{}
	for position, id := range result.UpsertedIDs {
		upserted[fmt.Sprint(position)] = id
	}
	return bson.M{"matched": result.MatchedCount, "upserted": upserted}
}

// upsert does one, by the key k of its documents: see ../program.py.
func upsert(ctx context.Context, coll *mongo.Collection, o operation, ordered bool) bson.M {
	filter := bson.D{{"k", o.Keys[0]}}
	var result *mongo.UpdateResult
	var err error
	switch o.Op {
	case "bulkWrite":
		return updateAll(ctx, coll, o.Keys, ordered)
	case "findOneAndUpdate":
		var document bson.M
		check(coll.FindOneAndUpdate(ctx, filter, increment, options.FindOneAndUpdate().
			SetUpsert(true).SetReturnDocument(options.After)).Decode(&document))
		return bson.M{"document": document}
	case "updateOne":
		result, err = coll.UpdateOne(ctx, filter, increment, options.UpdateOne().SetUpsert(true))
	case "updateMany":
		result, err = coll.UpdateMany(ctx, filter, increment, options.UpdateMany().SetUpsert(true))
	case "replaceOne":
		var replacement bson.D
		check(bson.UnmarshalExtJSON(o.Replacement, false, &replacement))
		result, err = coll.ReplaceOne(ctx, filter, replacement, options.Replace().SetUpsert(true))
	default:
		panic("no such operation: " + o.Op)
	}
	check(err)
	upserted := bson.M{}
	if result.UpsertedCount > 0 {
		upserted["0"] = result.UpsertedID
	}
	return bson.M{"matched": result.MatchedCount, "upserted": upserted}
}
