package main

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// plain sends a zero for each field that was never set.
type plain struct {
	ID     bson.ObjectID `bson:"_id"`
	Number int64         `bson:"number"`
	Code   string        `bson:"code"`
}

// sparse leaves such fields out.
type sparse struct {
	ID     bson.ObjectID `bson:"_id,omitempty"`
	Number int64         `bson:"number,omitempty"`
	Code   string        `bson:"code,omitempty"`
}

// zeros inserts count structs of which no field was set; with own, sparse ones.
func zeros(ctx context.Context, coll *mongo.Collection, a argument) any {
	documents := make([]any, a.Count)
	for i := range documents {
		if a.Own {
			documents[i] = sparse{}
		} else {
			documents[i] = plain{}
		}
	}
	result, err := coll.InsertMany(ctx, documents)
	check(err)
	return bson.M{"inserted": len(result.InsertedIDs)}
}
