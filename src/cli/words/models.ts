/** `tollgate models` in words. `../models.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'
import type { ModelFlags } from '../local-model.ts'
import { toCatalogFile } from './serve.ts'

export function addModels(program: Command, context: Context): void {
  const models = program.command('models').description('show the models that may be asked for, and add those of files')
  models
    .command('list')
    .description('list models: context, USD per million tokens, whether they are ready, what they can do')
    .argument('[pattern...]', 'those that match, such as openai/*')
    .option(
      '--all',
      'also those that are disabled, that GET /v1/models does not list, or that are of a wildcard and not ready',
    )
    .action(async (patterns: string[], flags: { all?: boolean }) => {
      await (await import('../models.ts')).list(patterns, flags, context)
    })
  models
    .command('show')
    .description('show a model: facts, prices, routes, and why it is not ready')
    .argument('<slug>', 'its name, or another name that it has')
    .action(async (slug: string) => (await import('../models.ts')).show(slug, context))
  models
    .command('add')
    .description(
      'have a model of a file served here: reads what it is, and says how it is run in models.d/ of the data folder',
    )
    .argument('<path>', 'a .gguf file, any part of one, or a folder with one model')
    .option('--name <slug>', 'what it is called (default: local/ and the name of its file)')
    .option('--context <n>', 'tokens of one request (default: what fits into the memory, at most 32768)')
    .option('--slots <n>', 'requests that it answers at a time (default 2)')
    .option('--memory <size>', 'what is planned for it, such as 4G (default: estimated)')
    .option(
      '--device <name>',
      'whose memory it takes, such as CUDA0 or cpu, where memory in the catalogue is by device',
    )
    .option('--mmproj <file>', 'the projector by which it reads pictures or sound')
    .option(
      '--catalog <file>',
      'the catalogue that the server begins with, if not a usual one: it must not have the same',
    )
    .action(async (path: string, { catalog, ...flags }: ModelFlags & { catalog?: string }) =>
      (await import('../models-add.ts')).add(path, { ...flags, catalog: toCatalogFile(catalog, context) }, context),
    )
  models
    .command('remove')
    .description('take away a model that was added from a file; that stays')
    .argument('<slug>', 'its name')
    .option('--plan', 'show what that would delete, and delete nothing')
    .action(async (slug: string, flags: { plan?: boolean }) =>
      (await import('../models-add.ts')).remove(slug, flags, context),
    )
}
