/** `tollgate upstreams` in words. `../upstreams.ts` and those beside it do what they say. */

import { type Command, Option } from 'commander'
import { DIALECTS, isBuiltIn } from '../../domain/dialects.ts'
import { usageError } from '../command-error.ts'
import type { Context } from '../io.ts'
import type { AddFlags, EditFlags } from '../upstreams-add.ts'
import type { DiscoverFlags } from '../upstreams-discover.ts'

export function addUpstreams(program: Command, context: Context): void {
  const upstreams = program.command('upstreams').description('add, show, change and test the places that answer')
  withCredential(upstreams.command('add'))
    .description(
      'add a provider with its models: as it lists them, with the facts and prices that are known. Shows first what that would make',
    )
    .argument('[provider]', 'its name, such as openai, anthropic, google or openrouter; of others, their --base-url')
    .option('--name <id>', 'what the upstream is called (default: as the provider)')
    .option('--base-url <url>', 'its address, if not the usual one, such as http://127.0.0.1:8000/v1')
    .addOption(new Option('--dialect <format>', 'what it speaks, if nobody knows').choices(FORMATS))
    .option(
      '--models <pattern>',
      'these models only, such as gpt-5*; NAME=SLUG has one called otherwise here (may be repeated)',
      collect,
    )
    .option('--local', 'it costs nothing')
    .option('--plan', 'show what that would make, and change nothing')
    .option('--yes', 'ask nothing: for scripts')
    .action(async (provider: string | undefined, flags: AddFlags) =>
      (await import('../upstreams-add.ts')).add(provider, flags, context),
    )
  upstreams
    .command('discover')
    .description(
      'look which model servers answer on this machine, and for which providers there is a key in the environment. Loads and changes nothing',
    )
    .option('--enable', 'add the servers that are found')
    .option('--at <url>', 'look there, and not at the usual ports (may be repeated)', collect)
    .action(async (flags: DiscoverFlags) => (await import('../upstreams-discover.ts')).discover(flags, context))
  upstreams
    .command('list')
    .description('list all upstreams: state, breakers, deadlines, last error')
    .action(async () => (await import('../upstreams.ts')).list(context))
  withCredential(upstreams.command('edit'))
    .description(
      'change an upstream, which then is an administrator’s: no file changes it. Where it moves, its key is to be given again',
    )
    .argument('<id>', 'what it is called')
    .option('--base-url <url>', 'its address')
    .option(
      '--models <pattern>',
      'ask it for its list again, and add these models, as for add (may be repeated)',
      collect,
    )
    .option('--enable', 'it may be asked again')
    .option('--disable', 'nothing is sent to it')
    .option('--rpm <n>', 'requests per minute that its provider allows; none = no limit')
    .option('--tpm <n>', 'tokens per minute that its provider allows; none = no limit')
    .option('--concurrency <n>', 'calls at a time that its provider allows; none = no limit')
    .option('--plan', 'show what that would change, and change nothing')
    .option('--yes', 'ask nothing: for scripts')
    .action(async (id: string, flags: EditFlags) => (await import('../upstreams-add.ts')).edit(id, flags, context))
  upstreams
    .command('remove')
    .description('delete an upstream that was added, with the models and routes that were found there')
    .argument('<id>', 'what it is called')
    .option('--plan', 'show what that would delete, and delete nothing')
    .action(async (id: string, flags: { plan?: boolean }) =>
      (await import('../upstreams-add.ts')).remove(id, flags, context),
    )
  upstreams
    .command('test')
    .description(
      'ask upstreams, by what costs nothing, whether they could answer now; exit 1 if one could not. A running server asks, and goes by what it finds',
    )
    .argument('[id...]', 'the ones to ask; else all that are enabled')
    .option('--call', 'make one tiny call to each that is named: paid, and on record under the key `system`')
    .option('--model <slug>', 'the model that --call asks; else the cheapest')
    .action(async (ids: string[], { call, model }: { call?: boolean; model?: string }) => {
      if (call) return (await import('../upstreams.ts')).call(ids, model, context)
      if (model !== undefined) throw usageError('--model is for --call alone: without it nothing is asked of a model.')
      return (await import('../upstreams.ts')).test(ids, context)
    })
  upstreams
    .command('start')
    .description('start the model server of an upstream that the running server has, and wait until it is ready')
    .argument('<id>', 'what it is called')
    .action(async (id: string) => (await import('../upstreams.ts')).drive(id, 'start', context))
  upstreams
    .command('stop')
    .description('stop the model server of an upstream once its answers have ended; the next request starts it again')
    .argument('<id>', 'what it is called')
    .option('--now', 'at once, where it hangs; its answers break off')
    .action(async (id: string, { now }: { now?: boolean }) =>
      (await import('../upstreams.ts')).drive(id, now ? 'stop now' : 'stop', context),
    )
  upstreams
    .command('logs')
    .description('print the end of what the model server of an upstream has written')
    .argument('<id>', 'what it is called')
    .option('--lines <n>', 'how many lines', '100')
    .action(async (id: string, { lines }: { lines: string }) =>
      (await import('../upstreams.ts')).logs(id, lines, context),
    )
}

const FORMATS = DIALECTS.filter((dialect) => !isBuiltIn({ dialect }))

const collect = (pattern: string, before: string[] = []) => [...before, pattern]

const withCredential = (command: Command) =>
  command
    .option('--key-env <variable>', 'the variable of the server’s environment that has its key')
    .option('--key-stdin', 'its key is piped in, and stored sealed')
    .option('--key', 'its key is asked for, and stored sealed')
    .option('--no-key', 'it needs none')
