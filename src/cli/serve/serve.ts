/** `tollgate serve`: an option for each setting that `config.ts` defines. `run-server.ts` runs it. */
import { type Command, Option } from 'commander'
import { SETTINGS, type SettingDefinition, toVariableName } from '../../config.ts'
import { type Context, toExamples } from '../io.ts'
import { addOldName, toRenamedNote } from '../values.ts'

/** The catalogue that was named: by a flag or an argument, else in the environment. */
export const toCatalogFile = (given: string | undefined, { environment }: Context) =>
  given ?? (environment.TOLLGATE_CATALOG || undefined)

/** One text of all that were given, as the settings have it. */
const toList = (text: string, before?: string) => (before === undefined ? text : `${before},${text}`)

/** The flag of a setting, and its line of help. */
function toOption({ name, argument, byDefault, isList, ...setting }: SettingDefinition<unknown>): Option {
  const isOff = argument === null && byDefault === 'on'
  const what = setting.description.replace(/^[A-Z](?![A-Z])/, (letter) => letter.toLowerCase())
  const notes = [isList && 'repeatable', argument && `default ${setting.defaultText ?? byDefault ?? 'none'}`]
  const note = notes.filter(Boolean).join('; ')
  const flag = argument === null ? `--${isOff ? 'no-' : ''}${name}` : `--${name} ${argument}`
  const option = new Option(flag, `${isOff ? 'disable the ' : ''}${what}${note && ` (${note})`}`)
  return isList ? option.argParser(toList) : option
}

const RENAMED = Object.values<SettingDefinition<unknown>>(SETTINGS).flatMap(({ was, name, argument }) =>
  was === undefined ? [] : [{ was, name, argument }],
)

/** Says the new name of each variable that was set by its old one. */
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
    .argument('[model]', 'a .gguf file, or a folder with one, to serve: added as by models add where it is not yet')
    .option('--catalog <file>', 'catalog to apply (default <data>/catalog.yaml, ./catalog.yaml, then the built-in one)')
    .option('--first-key', 'make and print a first key even without a terminal')
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
        // What is only said by default is left to the environment and the settings.
        if (command.getOptionValueSource(name) !== 'cli') return [option.name(), undefined]
        const value: unknown = command.getOptionValue(name)
        return [option.negate ? name : option.name(), typeof value === 'boolean' ? (value ? 'on' : 'off') : value]
      })
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
          process.stdout.isTTY === true,
      })
    })
}
