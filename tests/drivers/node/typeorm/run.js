// Runs a program in TypeScript, as a TypeORM application is set up: node run.js PROGRAM.ts ARGUMENTS
'use strict';
const fs = require('node:fs');
const ts = require('typescript');

const [, , program] = process.argv;
const {outputText} = ts.transpileModule(fs.readFileSync(program, 'utf8'), {compilerOptions: {
  module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022, experimentalDecorators: true,
  emitDecoratorMetadata: true, esModuleInterop: true}});
const compiled = program.replace(/\.ts$/, '.js');
fs.writeFileSync(compiled, outputText);
require(compiled);
