<?php
// One step for each line of the standard input, with the MongoDB extension of PHP, whose client has one
// thread: see ../program.py. Knows the step "insert".
//
//   php driver.php '{"task": "steps", "uri": ..., "db": ...}'

use MongoDB\Driver\BulkWrite;
use MongoDB\Driver\Manager;

function insert(Manager $client, string $db, array $step): array
{
    $documents = new BulkWrite();
    for ($k = $step['first']; $k < $step['first'] + $step['count']; ++$k) {
        $documents->insert(['k' => $k]);
    }
    return ['inserted' => $client->executeBulkWrite("$db.{$step['coll']}", $documents)->getInsertedCount()];
}

$argument = json_decode($argv[1], true);
$client = new Manager($argument['uri']);
while (($line = fgets(STDIN)) !== false) {
    try {
        $result = insert($client, $argument['db'], json_decode($line, true));
    } catch (MongoDB\Driver\Exception\Exception $error) {
        $result = ['error' => $error->getMessage(), 'codes' => []];
    }
    echo json_encode($result), "\n";
}
