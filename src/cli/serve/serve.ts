/** `tollgate serve`: one option per setting in `config.ts`. */

import { type Command, Option } from 'commander'
import { toVariableName } from '../../config.ts'
import { uncapitalize } from '../../domain/text.ts'
import { WORKER } from '../../server/workers/topics.ts'
import { SETTINGS, type SettingDefinition } from '../../settings.ts'
import { type Context, toExamples } from '../io.ts'
import { addOldName, toRenamedNote } from '../values.ts'

export const toCatalogFile = (given: string | undefined, { environment }: Context) =>
  given ?? (environment.TOLLGATE_CATALOG || undefined)

const toList = (text: string, before?: string) => (before === undefined ? text : `${before},${text}`)

function toOption({ name, argument, byDefault, isList, ...setting }: SettingDefinition<unknown>): Option {
  const isOff = argument === null && byDefault === 'on'
  const what = uncapitalize(setting.description)
  const notes = [isList && 'repeatable', argument && `default ${setting.defaultText ?? byDefault ?? 'none'}`]
  const note = notes.filter(Boolean).join('; ')
  const flag = argument === null ? `--${isOff ? 'no-' : ''}${name}` : `--${name} ${argument}`
  const option = new Option(flag, `${isOff ? 'disable the ' : ''}${what}${note && ` (${note})`}`)
  return isList ? option.argParser(toList) : option
}

const RENAMED = Object.values<SettingDefinition<unknown>>(SETTINGS).flatMap(({ was, name, argument }) =>
  was === undefined ? [] : [{ was, name, argument }],
)

function sayRenamedVariables({ environment, stderr }: Context): void {
  for (const { was, name } of RENAMED) {
    const [old, now] = [toVariableName(was), toVariableName(name)]
    if (environment[old] && !environment[now]) stderr(toRenamedNote(old, now))
  }
}

interface ServeFlags {
  catalog?: string
  firstKey?: boolean
}

const addForServe = async (path: string, catalogFile: string | undefined, context: Context) =>
  (await import('../models/add.ts')).addOnce(path, catalogFile, context)

export function addServe(command: Command, context: Context): void {
  command
    .argument('[model]', '.gguf file (or folder with one) to add, like models add, and serve')
    .option('--catalog <file>', 'catalog to apply (default <data>/catalog.yaml, ./catalog.yaml, then the built-in one)')
    .option('--first-key', 'create and print the first key even without a terminal')
  for (const setting of Object.values(SETTINGS)) command.addOption(toOption(setting))
  for (const { was, name, argument } of RENAMED) addOldName(command, `--${was} ${argument}`, name, context)
  command
    .addHelpText(
      'after',
      toExamples(
        'serve ./gemma-3-4b-it-Q4_K_M.gguf',
        'serve --host 0.0.0.0 --port 80 --data /var/lib/tollgate --catalog /etc/tollgate.yaml',
      ),
    )
    .action(async (path: string | undefined, { catalog, firstKey }: ServeFlags, command: Command) => {
      const flags = command.options.map((option) => {
        const name = option.attributeName()
        // A default must not override environment and settings.
        if (command.getOptionValueSource(name) !== 'cli') return [option.name(), undefined]
        const value: unknown = command.getOptionValue(name)
        return [option.negate ? name : option.name(), typeof value === 'boolean' ? (value ? 'on' : 'off') : value]
      })
      const keeper = context.environment[WORKER]
      if (keeper) return (await import('./run-worker.ts')).runWorkerProcess(context, Object.fromEntries(flags), keeper)
      sayRenamedVariables(context)
      const catalogFile = toCatalogFile(catalog, context)
      const model = path === undefined ? null : await addForServe(path, catalogFile, context)
      const { runServer } = await import('./run-server.ts')
      await runServer(context, {
        flags: Object.fromEntries(flags),
        ...{ catalogFile, model },
        wantsFirstKey:
          firstKey === true ||
          /^(1|true|yes)$/.test(context.environment.TOLLGATE_FIRST_KEY ?? '') ||
          context.isTerminal(1),
      })
    })
}
