/** `tollgate models` in words. `../models.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'

export function addModels(program: Command, context: Context): void {
  const models = program.command('models').description('show the models that may be asked for')
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
}
