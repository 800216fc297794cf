package main

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// everyday stores documents in every way that the driver has; returns how many. Of each upsert that
// is done twice, the second one finds what the first one stored.
func everyday(ctx context.Context, coll *mongo.Collection, first int) int {
	k := int32(first) - 1
	next := func() bson.D { k++; return bson.D{{"k", k}} }
	set := func(text string) bson.D { return bson.D{{"$set", bson.D{{"text", text}}}} }

	_, err := coll.InsertOne(ctx, next())
	check(err)
	_, err = coll.InsertMany(ctx, []any{next(), next()})
	check(err)
	one, many := next(), next()
	for i := 0; i < 2; i++ {
		_, err = coll.UpdateOne(ctx, one, set("UpdateOne"), options.UpdateOne().SetUpsert(true))
		check(err)
		_, err = coll.UpdateMany(ctx, many, set("UpdateMany"), options.UpdateMany().SetUpsert(true))
		check(err)
	}
	check(coll.FindOneAndUpdate(ctx, next(), set("FindOneAndUpdate"),
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Err())
	_, err = coll.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(next()),
		mongo.NewUpdateOneModel().SetFilter(next()).SetUpdate(set("BulkWrite")).SetUpsert(true)})
	check(err)
	key := next()
	_, err = coll.ReplaceOne(ctx, key, append(key, bson.E{"text", "replaced"}),
		options.Replace().SetUpsert(true))
	check(err)
	return int(k) + 1 - first
}
